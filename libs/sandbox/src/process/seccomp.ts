/**
 * Our seccomp filter as BPF bytes, assembled here so that the host needs no compiler or library.
 *
 * It is a deny list (EPERM). It has every call that the docker backend's profile forbids by name (a test
 * compares the two). Call numbers above the last known one get ENOSYS, so no unknown call is allowed.
 * Namespaces and mounts isolate the jail; the filter refuses calls that could weaken them or reach rarely
 * tested kernel code. Order of decisions: foreign architecture: kill; x32: EPERM; denied number: EPERM;
 * clone3 and unknown numbers: ENOSYS (a filter cannot read clone3's flags in memory; libc falls back to
 * clone); then calls by their arguments: clone with namespace flags, prlimit64 on another process (it could
 * block the agent, which shares the program's uid), personality, ioctl that types into terminals, socket
 * families. Numbers: Linux arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h;
 * equal from 424 on.
 */

export type SeccompArch = 'x64' | 'arm64'

/**
 * Socket families for programs. `local`: unix, IPv4 and IPv6. `none`: no socket(2), but socketpair stays
 * allowed.
 */
type Sockets = 'local' | 'none'

// [x86_64, aarch64]; null if the architecture lacks the call.
const DENIED: Record<string, readonly [number | null, number | null]> = {
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  kcmp: [312, 272],
  unshare: [272, 97],
  setns: [308, 268],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  swapon: [167, 224],
  swapoff: [168, 225],
  quotactl: [179, 60],
  reboot: [169, 142],
  sethostname: [170, 161],
  setdomainname: [171, 162],
  iopl: [172, null],
  ioperm: [173, null],
  create_module: [174, null],
  init_module: [175, 105],
  delete_module: [176, 106],
  query_module: [178, null],
  finit_module: [313, 273],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  acct: [163, 89],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  clock_adjtime: [305, 266],
  adjtimex: [159, 171],
  syslog: [103, 116],
  uselib: [134, null],
  ustat: [136, null],
  sysfs: [139, null],
  modify_ldt: [154, null],
  nfsservctl: [180, 42],
  vhangup: [153, 58],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  keyctl: [250, 219],
  add_key: [248, 217],
  request_key: [249, 218],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  fanotify_init: [300, 262],
  fanotify_mark: [301, 263],
  lookup_dcookie: [212, 18],
  vmsplice: [278, 75],
  mbind: [237, 235],
  set_mempolicy: [238, 237],
  migrate_pages: [256, 238],
  move_pages: [279, 239],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  // Uses up fs.aio-max-nr, which is shared by the whole host, for example with a database.
  io_setup: [206, 0],
  io_destroy: [207, 1],
  io_getevents: [208, 4],
  io_submit: [209, 2],
  io_cancel: [210, 3],
  io_pgetevents: [333, 292],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  pidfd_getfd: [438, 438],
  process_madvise: [440, 440],
  mount_setattr: [442, 442],
  quotactl_fd: [443, 443],
  memfd_secret: [447, 447],
  process_mrelease: [448, 448],
  set_mempolicy_home_node: [450, 450],
  statmount: [457, 457],
  listmount: [458, 458],
  open_tree_attr: [467, 467],
  lsm_get_self_attr: [459, 459],
  lsm_set_self_attr: [460, 460],
  lsm_list_modules: [461, 461],
  // Calls that only x86_64 has. uretprobe and uprobe are the kernel's own; the others never existed or are
  // gone.
  _sysctl: [156, null],
  get_kernel_syms: [177, null],
  getpmsg: [181, null],
  putpmsg: [182, null],
  afs_syscall: [183, null],
  tuxcall: [184, null],
  security: [185, null],
  vserver: [236, null],
  uretprobe: [335, null],
  uprobe: [336, null],
}

/**
 * The highest number that this file was checked against (file_setattr, Linux 6.17). Later calls get ENOSYS,
 * as on a kernel without them, so that no unknown call is allowed.
 */
const LAST_KNOWN = 469

/**
 * Also refused if the worker watches memory without a cgroup. These calls create memory outside of the
 * sandbox's processes and file systems, where the watch does not see it.
 */
const DENIED_WATCHED: typeof DENIED = {
  memfd_create: [319, 279],
  shmget: [29, 194],
}

/**
 * Also refused in a jail without namespaces. Landlock does not cover calls that change a file's mode, owner,
 * times or attributes (even through a file opened for reading), watches, and System V IPC. With them a
 * program would reach every file and segment of the worker's user, and other sandboxes.
 */
const DENIED_BARE: typeof DENIED = {
  chmod: [90, null],
  fchmod: [91, 52],
  fchmodat: [268, 53],
  fchmodat2: [452, 452],
  chown: [92, null],
  fchown: [93, 55],
  lchown: [94, null],
  fchownat: [260, 54],
  setxattr: [188, 5],
  lsetxattr: [189, 6],
  fsetxattr: [190, 7],
  setxattrat: [463, 463],
  removexattr: [197, 14],
  lremovexattr: [198, 15],
  fremovexattr: [199, 16],
  removexattrat: [466, 466],
  file_setattr: [469, 469],
  utime: [132, null],
  utimes: [235, null],
  futimesat: [261, null],
  inotify_add_watch: [254, 27],
  shmget: [29, 194],
  shmat: [30, 196],
  shmctl: [31, 195],
  semget: [64, 190],
  semop: [65, 193],
  semctl: [66, 191],
  semtimedop: [220, 192],
  msgget: [68, 186],
  msgsnd: [69, 189],
  msgrcv: [70, 188],
  msgctl: [71, 187],
  mq_open: [240, 180],
  mq_unlink: [241, 181],
}

/** [x86_64, aarch64] of calls whose first argument is a pid; 0 is the caller. */
const ON_PROCESSES = {
  sched_setparam: [142, 118],
  sched_setscheduler: [144, 119],
  sched_setaffinity: [203, 122],
  sched_setattr: [314, 274],
} as const

/**
 * Calls whose first argument says what the second one is: a pid if it equals `self`, otherwise a group or a
 * user.
 */
const ON_GROUPS = {
  setpriority: { nr: [141, 140], self: 0 },
  ioprio_set: { nr: [251, 30], self: 1 },
} as const
const UTIMENSAT = [280, 88] as const

/** Calls that the filter refuses with any arguments. */
export const DENIED_CALLS: readonly string[] = Object.keys(DENIED)

const NUMBERS = {
  x64: { arch: 0xc000003e, clone: 56, prlimit64: 302, personality: 135, ioctl: 16, socket: 41 },
  arm64: { arch: 0xc00000b7, clone: 220, prlimit64: 261, personality: 92, ioctl: 29, socket: 198 },
} as const
const CLONE3 = 435
const IO_URING_SETUP = 425
const X32_BIT = 0x40000000

// linux/seccomp.h
const ALLOW = 0x7fff0000
const KILL = 0x80000000
const ERRNO = 0x00050000
const EPERM = ERRNO | 1
const ENOSYS = ERRNO | 38
const EAFNOSUPPORT = ERRNO | 97

// NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET. NEWTIME is not in the mask, because in
// clone its bit belongs to the exit signal. Only clone3 and unshare can use it.
const CLONE_NAMESPACES = 0x7e020000
const TIOCSTI = 0x5412
const TIOCLINUX = 0x541c
const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10

// linux/bpf_common.h: the classes and modes used here.
const LOAD_WORD_ABS = 0x20
const JUMP_EQ = 0x15
const JUMP_GE = 0x35
const JUMP_SET = 0x45
const RETURN = 0x06

interface Instruction {
  code: number
  jt: number
  jf: number
  k: number
}
const load = (offset: number): Instruction => ({ code: LOAD_WORD_ABS, jt: 0, jf: 0, k: offset })
const ret = (action: number): Instruction => ({ code: RETURN, jt: 0, jf: 0, k: action })
const jump = (code: number, k: number, jt: number, jf: number): Instruction => ({ code, jt, jf, k })

// struct seccomp_data: nr at 0, arch at 4, args from 16 (low words first: little endian).
const NR = load(0)
const ARCH = load(4)
const argument = (index: number): Instruction => load(16 + index * 8)

/** A block for a matching number. It must return in every case. */
function when(nr: number, block: Instruction[]): Instruction[] {
  return [jump(JUMP_EQ, nr, 0, block.length), ...block]
}

function assemble(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(program.length * 8)
  program.forEach(({ code, jt, jf, k }, index) => {
    bytes.writeUInt16LE(code, index * 8)
    bytes.writeUInt8(jt, index * 8 + 2)
    bytes.writeUInt8(jf, index * 8 + 3)
    bytes.writeUInt32LE(k >>> 0, index * 8 + 4)
  })
  return bytes
}

const refused = (calls: typeof DENIED, column: 0 | 1): Instruction[] =>
  Object.values(calls).flatMap((pair) => {
    const nr = pair[column]
    return nr === null ? [] : when(nr, [ret(EPERM)])
  })

/**
 * The filter of a jail with namespaces, as an array of `struct sock_filter` (8 bytes each, little endian).
 * `watched`: no cgroup limits memory, so calls that create memory which the watch cannot see are refused.
 */
export const seccompFilter = (arch: SeccompArch, watched: boolean): Buffer =>
  filterOf(arch, 'local', memoryRules(arch, watched))

const memoryRules = (arch: SeccompArch, watched: boolean): Instruction[] =>
  watched ? refused(DENIED_WATCHED, arch === 'x64' ? 0 : 1) : []

/** The filter of a jail without namespaces: no sockets, no access to the user's other processes or files. */
export function bareFilter(arch: SeccompArch, watched: boolean): Buffer {
  const column = arch === 'x64' ? 0 : 1
  const zero = (index: number): Instruction[] => [argument(index), jump(JUMP_EQ, 0, 1, 0), ret(EPERM)]
  return filterOf(arch, 'none', [
    ...memoryRules(arch, watched),
    ...refused(DENIED_BARE, column),
    ...Object.values(ON_PROCESSES).flatMap((nr) => when(nr[column], [...zero(0), ret(ALLOW)])),
    ...Object.values(ON_GROUPS).flatMap(({ nr, self }) =>
      when(nr[column], [argument(0), jump(JUMP_EQ, self, 1, 0), ret(EPERM), ...zero(1), ret(ALLOW)]),
    ),
    // Allowed only without a path: the call then sets the times of an open file. The path is a pointer of
    // 64 bits, so both its words must be 0.
    ...when(UTIMENSAT[column], [
      ...zero(1),
      load(16 + 8 + 4),
      jump(JUMP_EQ, 0, 1, 0),
      ret(EPERM),
      ret(ALLOW),
    ]),
  ])
}

function filterOf(arch: SeccompArch, sockets: Sockets, more: readonly Instruction[]): Buffer {
  const numbers = NUMBERS[arch]
  const column = arch === 'x64' ? 0 : 1
  const families = sockets === 'local' ? [AF_UNIX, AF_INET, AF_INET6] : []
  const program: Instruction[] = [
    ARCH,
    jump(JUMP_EQ, numbers.arch, 1, 0),
    ret(KILL),
    NR,
    ...(arch === 'x64' ? [jump(JUMP_GE, X32_BIT, 0, 1), ret(EPERM)] : []),
    ...refused(DENIED, column),
    ...more,
    ...when(CLONE3, [ret(ENOSYS)]),
    jump(JUMP_GE, LAST_KNOWN + 1, 0, 1),
    ret(ENOSYS),
    ...when(numbers.clone, [argument(0), jump(JUMP_SET, CLONE_NAMESPACES, 0, 1), ret(EPERM), ret(ALLOW)]),
    ...when(numbers.prlimit64, [argument(0), jump(JUMP_EQ, 0, 1, 0), ret(EPERM), ret(ALLOW)]),
    ...when(numbers.personality, [
      argument(0),
      ...[0, 0x20000, 0xffffffff].flatMap((persona) => [jump(JUMP_EQ, persona, 0, 1), ret(ALLOW)]),
      ret(EPERM),
    ]),
    ...when(numbers.ioctl, [
      argument(1),
      ...[TIOCSTI, TIOCLINUX].flatMap((request) => [jump(JUMP_EQ, request, 0, 1), ret(EPERM)]),
      ret(ALLOW),
    ]),
    ...when(numbers.socket, [
      argument(0),
      ...families.flatMap((family) => [jump(JUMP_EQ, family, 0, 1), ret(ALLOW)]),
      ret(sockets === 'local' ? EAFNOSUPPORT : EPERM),
    ]),
    ret(ALLOW),
  ]
  return assemble(program)
}

/**
 * A filter that refuses only non-unix sockets, for `network: none` of a plain subprocess
 * (host-jail/plain.ts).
 */
export function noNetworkFilter(arch: SeccompArch): Buffer {
  const numbers = NUMBERS[arch]
  const program = [
    ARCH,
    jump(JUMP_EQ, numbers.arch, 1, 0),
    ret(KILL),
    NR,
    ...(arch === 'x64' ? [jump(JUMP_GE, X32_BIT, 0, 1), ret(EPERM)] : []),
    // io_uring opens sockets without socket(2).
    ...when(IO_URING_SETUP, [ret(EPERM)]),
    ...when(numbers.socket, [argument(0), jump(JUMP_EQ, AF_UNIX, 0, 1), ret(ALLOW), ret(EPERM)]),
    ret(ALLOW),
  ]
  return assemble(program)
}

/** Null if this machine's system call numbers are unknown. */
export const seccompArch = (): SeccompArch | null =>
  process.arch === 'x64' || process.arch === 'arm64' ? process.arch : null
