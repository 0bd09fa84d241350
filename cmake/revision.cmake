# Writes OUT, a source with the commit of SOURCE and the commit's date for `tranche version`: from git, or outside a git
# repository from the variables REVISION and SOURCE_DATE_EPOCH, which the image's build has. Neither: both are "".
# Run at each build, and OUT changes only with the commit: then one small object is compiled.
set(revision "$ENV{REVISION}")
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} log -1 --format=%H=%ct OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(commit MATCHES "^([0-9a-f]+)=([0-9]+)$")
    set(revision ${CMAKE_MATCH_1})
    set(ENV{SOURCE_DATE_EPOCH} ${CMAKE_MATCH_2})
  endif()
endif()
set(date "")
if("$ENV{SOURCE_DATE_EPOCH}" MATCHES "^[1-9][0-9]*$")
  string(TIMESTAMP date "%Y-%m-%dT%H:%M:%SZ" UTC)  # of SOURCE_DATE_EPOCH
endif()
string(REGEX REPLACE "[^0-9a-f]" "" revision "${revision}")
set(text "namespace tranche::cli {\nextern const char *const kRevision, *const kRevisionDate;\nconst char* const kRevision = \"${revision}\";\nconst char* const kRevisionDate = \"${date}\";\n}\n")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
