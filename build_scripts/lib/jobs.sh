#!/usr/bin/env bash
# How many compilers at once the machine's memory bears.

# guard_jobs: the smaller of CPUs and memory / memory_per_job_mib (recipe data, MiB of one compiler process),
# at least 1. CPUs are build_cpus, CPU_COUNT or nproc; memory is build_memory_mib (MiB), or what the kernel
# calls available, within the cgroup's limit. MAX_JOBS overrides the result.
# Exports MAX_JOBS and CMAKE_BUILD_PARALLEL_LEVEL.
guard_jobs() {
  local per_job cpus memory jobs source
  [[ -n ${memory_per_job_mib:-} ]] ||
    guard_fail 64 jobs "memory_per_job_mib is not set" "" "MiB that one compiler process takes" "set it in the context of the recipe"
  read_count memory_per_job_mib "correct it in the context of the recipe"
  per_job=$REPLY

  cpus=$(nproc 2>/dev/null) || cpus=1
  for source in build_cpus CPU_COUNT; do
    if [[ -n ${!source:-} ]]; then
      read_count "$source" "give the number of CPUs, or leave it empty"
      cpus=$REPLY
      break
    fi
  done

  if [[ -n ${build_memory_mib:-} ]]; then
    read_count build_memory_mib "give the memory in MiB, or leave it empty"
    memory=$REPLY
  else
    available_memory_mib "" ||
      guard_fail 64 jobs "free memory is unknown" "no MemAvailable in /proc/meminfo" "a number" "set ROCM_CHANNEL_MEMORY_MIB"
    memory=$REPLY
  fi

  jobs=$((memory / per_job))
  if ((jobs < 1)); then
    guard_warn jobs "$memory MiB are free and one compiler process takes up to $per_job MiB: the kernel may kill it"
    jobs=1
  fi
  ((jobs <= cpus)) || jobs=$cpus
  if [[ -n ${MAX_JOBS:-} ]]; then
    read_count MAX_JOBS "give a number of jobs, or leave it empty"
    if ((REPLY > jobs)); then
      guard_warn jobs "MAX_JOBS=$REPLY is more than this machine bears ($jobs: $cpus CPUs, $memory MiB, $per_job MiB a job)"
    fi
    jobs=$REPLY
  fi
  export MAX_JOBS=$jobs CMAKE_BUILD_PARALLEL_LEVEL=$jobs
  guard_say jobs "$jobs at once ($cpus CPUs, $memory MiB free, $per_job MiB a job)"
}

# REPLY: the value of a variable that must be a whole number above 0.
read_count() { # VARIABLE FIX
  [[ ${!1} =~ ^0*([123456789][0123456789]{0,8})$ ]] ||
    guard_fail 64 jobs "$1 is no number of things" "${!1}" "a whole number above 0" "$2"
  REPLY=${BASH_REMATCH[1]}
}

# REPLY: free memory in MiB, within the limits of this process's cgroups (version 1 and 2) and of the groups
# above them. ROOT is the folder that holds proc and sys, empty for this machine's own.
available_memory_mib() { # ROOT
  local IFS=$' \t\n' root=$1 key value mib='' hierarchy controllers group folder
  while read -r key value _; do
    [[ $key != MemAvailable: ]] || mib=$((value / 1024))
  done 2>/dev/null <"$root/proc/meminfo" || true
  [[ -n $mib ]] || return 1
  while IFS=: read -r hierarchy controllers group; do
    case $hierarchy:,$controllers, in
    0:,,) folder=$root/sys/fs/cgroup ;;
    *,memory,*) folder=$root/sys/fs/cgroup/memory ;;
    *) continue ;;
    esac
    # In a container the group's path may be the host's, and only its root be visible.
    while :; do
      for value in "$folder${group%/}"/memory.{max,limit_in_bytes}; do
        [[ ! -r $value ]] || value=$(<"$value")
        [[ $value =~ ^[0123456789]{1,18}$ ]] && ((value / 1048576 < mib)) && mib=$((value / 1048576))
      done
      [[ $group == */* ]] || break
      group=${group%/*}
    done
  done 2>/dev/null <"$root/proc/self/cgroup" || true
  REPLY=$mib
}
