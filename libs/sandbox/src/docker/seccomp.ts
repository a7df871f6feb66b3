/**
 * Our own seccomp profile: default deny, and a list of what Python, Node, bash and their children need. It
 * starts from the list that moby's default profile gives a container without capabilities and drops what has
 * been a way out of containers or is of no use to a program. Among the refused calls, some of which moby's
 * default refuses as well, are:
 *   - io_uring_*: still allowed by the default of dockerd 20.10, removed upstream by moby/moby#46762
 *   - userfaultfd, keyctl, add_key, request_key, bpf, perf_event_open, ptrace, process_vm_*, kcmp,
 *     pidfd_getfd
 *   - unshare, setns, and clone with any namespace flag; clone3 answers ENOSYS, because its flags lie in
 *     memory that a filter cannot read, and libc then falls back to clone
 *   - mount and everything about mounts, chroot, pivot_root, quotactl, swap, modules, reboot, acct,
 *     setting of clocks
 *   - sockets of families other than unix, IPv4 and IPv6 (netlink, packet, vsock, alg, bluetooth, …)
 *   - vmsplice, name_to_handle_at, open_by_handle_at, fanotify, lookup_dcookie, personality changes
 * One architecture per host is compiled, which is half of what the default costs at start.
 */

interface Rule {
  names: readonly string[]
  action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO'
  errnoRet?: number
  args?: readonly { index: number; value: number; valueTwo?: number; op: string }[]
}

const words = (text: string): string[] => text.trim().split(/\s+/)

const FILES = words(`
  access chdir chmod chown chown32 close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64
  fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock
  fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futimesat getcwd getdents
  getdents64 getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch ioctl lchown lchown32 lgetxattr link linkat
  listxattr llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64 mkdir mkdirat mknod mknodat newfstatat open
  openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv removexattr
  rename renameat renameat2 rmdir sendfile sendfile64 setxattr splice stat stat64 statfs statfs64 statx symlink
  symlinkat sync sync_file_range syncfs tee truncate truncate64 umask unlink unlinkat utime utimensat
  utimensat_time64 utimes write writev
`)

const MEMORY = words(`
  brk cachestat get_mempolicy madvise map_shadow_stack memfd_create mincore mlock mlock2 mlockall mmap mmap2 mprotect mremap mseal msync
  munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect membarrier remap_file_pages
`)

const PROCESSES = words(`
  alarm arch_prctl capget capset execve execveat exit exit_group fork get_robust_list get_thread_area getcpu getegid
  getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer getpgid getpgrp getpid getppid
  getpriority getresgid getresgid32 getresuid getresuid32 getrlimit getrusage getsid gettid getuid getuid32 ioprio_get
  ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self pidfd_open pidfd_send_signal pause prctl prlimit64
  restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
  rt_sigtimedwait_time64 rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
  sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam
  sched_setscheduler sched_yield seccomp set_robust_list set_thread_area set_tid_address setfsgid setfsgid32 setfsuid setfsuid32
  setgid setgid32 setgroups setgroups32 setitimer setpgid setpriority setregid setregid32 setresgid setresgid32
  setresuid setresuid32 setreuid setreuid32 setrlimit setsid setuid setuid32 sigaltstack sigprocmask sigreturn
  sysinfo tgkill times tkill ugetrlimit uname vfork wait4 waitid waitpid
`)

const WAITING = words(`
  clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64 epoll_create epoll_create1
  epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 futex futex_requeue futex_time64
  futex_wait futex_waitv futex_wake getrandom gettimeofday nanosleep _newselect pipe pipe2 poll ppoll ppoll_time64 pselect6
  pselect6_time64 select signalfd signalfd4 time timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64
  timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64
`)

const IPC = words(`
  accept accept4 bind connect getpeername getsockname getsockopt listen mq_getsetattr mq_notify mq_open mq_timedreceive
  mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink msgctl msgget msgrcv msgsnd recv recvfrom recvmmsg
  recvmmsg_time64 recvmsg semctl semget semop semtimedop semtimedop_time64 send sendmmsg sendmsg sendto setsockopt shmat
  shmctl shmdt shmget shutdown socketpair
`)

/** Calls that must stay forbidden; a test looks for each, so that no clean-up allows one. */
export const FORBIDDEN = words(`
  io_uring_setup io_uring_enter io_uring_register userfaultfd keyctl add_key request_key bpf perf_event_open ptrace
  process_vm_readv process_vm_writev kcmp pidfd_getfd unshare setns mount umount umount2 move_mount open_tree fsopen fsmount fsconfig
  fspick mount_setattr pivot_root chroot quotactl quotactl_fd swapon swapoff init_module finit_module delete_module
  kexec_load kexec_file_load reboot settimeofday clock_settime clock_adjtime adjtimex acct syslog sethostname
  setdomainname vmsplice name_to_handle_at open_by_handle_at fanotify_init lookup_dcookie nfsservctl uselib vhangup
  iopl ioperm modify_ldt mbind migrate_pages move_pages set_mempolicy memfd_secret process_madvise statmount listmount
`)

// Namespace bits of clone(2) as in moby: NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET.
const CLONE_NAMESPACES = 0x7e020000
// asm-generic/errno.h
const ENOSYS = 38
const EPERM = 1

const equals = (index: number, value: number): NonNullable<Rule['args']> => [
  { index, value, op: 'SCMP_CMP_EQ' },
]
const allow = (names: readonly string[], args?: Rule['args']): Rule => ({
  names,
  action: 'SCMP_ACT_ALLOW',
  ...(args === undefined ? {} : { args }),
})

/** The profile in Docker's JSON form, as an object. */
export function seccompProfile(): object {
  const rules: Rule[] = [
    allow([...FILES, ...MEMORY, ...PROCESSES, ...WAITING, ...IPC]),
    allow(['clone'], [{ index: 0, value: CLONE_NAMESPACES, valueTwo: 0, op: 'SCMP_CMP_MASKED_EQ' }]),
    { names: ['clone3'], action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
    // AF_UNIX, AF_INET, AF_INET6, for loopback (the only interface) and socket pairs.
    ...[1, 2, 10].map((family) => allow(['socket'], equals(0, family))),
    // Reading the personality, and values that runtimes set: PER_LINUX, UNAME26, ADDR_NO_RANDOMIZE off.
    ...[0x0, 0x20000, 0xffffffff].map((persona) => allow(['personality'], equals(0, persona))),
  ]
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: EPERM,
    archMap: [
      { architecture: 'SCMP_ARCH_X86_64', subArchitectures: [] },
      { architecture: 'SCMP_ARCH_AARCH64', subArchitectures: [] },
    ],
    syscalls: rules,
  }
}

/** Names that are allowed with at least some arguments. */
export const ALLOWED: readonly string[] = [
  ...FILES,
  ...MEMORY,
  ...PROCESSES,
  ...WAITING,
  ...IPC,
  'clone',
  'socket',
  'personality',
]
