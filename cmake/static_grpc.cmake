# gRPC without TLS (unix sockets only), protobuf lite and what they need, as static archives: one small program that
# starts fast and runs on any glibc system, instead of 55 shared libraries. Debian's CMake targets name only the shared
# ones, so the archives are found here. libc, libm and the loader stay shared: the driver library is opened at run time.
add_library(tranche_grpc INTERFACE)
set(archives)
foreach(name grpc++_unsecure grpc_unsecure gpr address_sorting upb cares re2 protobuf-lite z)
  find_library(ARCHIVE_${name} lib${name}.a REQUIRED)
  list(APPEND archives ${ARCHIVE_${name}})
endforeach()
get_filename_component(folder ${ARCHIVE_gpr} DIRECTORY)
file(GLOB absl CONFIGURE_DEPENDS ${folder}/libabsl_*.a)
target_link_libraries(tranche_grpc INTERFACE -Wl,--start-group ${archives} ${absl} -Wl,--end-group Threads::Threads rt)
