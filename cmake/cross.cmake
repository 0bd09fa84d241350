# A build for another architecture of Debian, with Debian's cross compiler and the packages that deploy/image/sysroot
# unpacked into CMAKE_SYSROOT:   cmake -DCMAKE_TOOLCHAIN_FILE=cmake/cross.cmake -DTRANCHE_CROSS=aarch64-linux-gnu …
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR ${TRANCHE_CROSS})
set(CMAKE_C_COMPILER ${TRANCHE_CROSS}-gcc)
set(CMAKE_CXX_COMPILER ${TRANCHE_CROSS}-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${TRANCHE_CROSS})
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TRANCHE_CROSS)
# What runs in the build, as protoc does, is this machine's own.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
