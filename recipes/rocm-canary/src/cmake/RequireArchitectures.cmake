# To be included before the language HIP is enabled: with no CMAKE_HIP_ARCHITECTURES, CMake takes the arch of
# this host's GPU, or gfx906 where there is none, and the build "works" and is of no use elsewhere.

option(ROCM_CANARY_ALLOW_DEFAULT_ARCH "Let CMake choose the GPU arch where none is given" OFF)

set(_given "${CMAKE_HIP_ARCHITECTURES}")
if(_given STREQUAL "")
  if(NOT ROCM_CANARY_ALLOW_DEFAULT_ARCH)
    message(FATAL_ERROR
      "no GPU arch is given; found: CMAKE_HIP_ARCHITECTURES is empty; wanted: the archs to build for; "
      "fix: pass -DCMAKE_HIP_ARCHITECTURES=gfx942 (several: \"gfx90a;gfx942\"), or "
      "-DROCM_CANARY_ALLOW_DEFAULT_ARCH=ON to let CMake choose")
  endif()
else()
  foreach(_target IN LISTS _given)
    if(NOT _target MATCHES "^gfx[0-9]+[0-9a-f][0-9a-f](:[a-z]+[+-])*$")
      message(FATAL_ERROR
        "CMAKE_HIP_ARCHITECTURES holds something that is no GPU arch; found: ${_target}; "
        "wanted: names such as gfx90a, separated by semicolons; fix: correct -DCMAKE_HIP_ARCHITECTURES")
    endif()
  endforeach()
endif()
