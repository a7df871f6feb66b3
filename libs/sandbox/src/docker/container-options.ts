/** The options of a sandbox's container. This pure function has all hardening, so tests can check it. */
import { SURROUNDINGS, type SandboxId } from '@cofferdam/contract'
import { agentArgv } from '../guest/index.ts'
import type Docker from 'dockerode'
import { inodesOf } from '../disk-inodes.ts'
import type { SlotSpec } from '../warm/index.ts'
import { runtimeKind } from './runtime-kind.ts'
import { seccompProfile } from './seccomp.ts'
import { SOCKET_FOLDER, SOCKET_PATH } from './socket-channel.ts'

/** Labels with which workers find their containers, and people see the owner. */
export const LABELS = {
  owner: 'cofferdam.owner',
  sandbox: 'cofferdam.sandbox',
  language: 'cofferdam.language',
} as const

/** Path of the guest agent in the image (infra/images). */
export const AGENT_DIRECTORY = '/usr/lib/cofferdam/agent'

const MiB = 1_048_576
const UNPRIVILEGED = 65_534
// The kernel's default period, 100 ms.
const CFS_PERIOD_US = 100_000

// Setting MaskedPaths replaces Docker's defaults. So the list repeats moby's paths, and then adds others that
// describe the host.
const MASKED_PATHS = [
  '/proc/asound',
  '/proc/acpi',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/sched_debug',
  '/proc/scsi',
  '/proc/interrupts',
  '/sys/firmware',
  '/proc/cmdline',
  '/proc/config.gz',
  '/proc/version',
  '/proc/diskstats',
  '/proc/pressure',
  '/proc/partitions',
  // Not masked, because runtimes read them: /sys/devices/system, /sys/fs/cgroup and /sys/kernel/mm. `virtual`
  // contains powercap, which moby masks. The list supports no patterns, so further PCI roots of large hosts
  // (pci0000:80, with disks) stay visible.
  '/sys/block',
  '/sys/bus',
  '/sys/class',
  '/sys/dev',
  '/sys/devices/pci0000:00',
  '/sys/devices/virtual',
  '/sys/fs/btrfs',
  '/sys/fs/ext4',
  '/sys/fs/xfs',
  '/sys/kernel/boot_params',
  '/sys/kernel/notes',
  '/sys/kernel/slab',
  '/sys/kernel/vmcoreinfo',
  '/sys/module',
]
const READONLY_PATHS = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger']

// One filter for all sandboxes of this process, as text for the daemon.
const SECCOMP = `seccomp=${JSON.stringify(seccompProfile())}`

/** What the backend adds to a slot's spec before its container can start. */
export interface ContainerSpec extends SlotSpec {
  /** The image's ID, not its tag, so that all containers of a backend have the same image. */
  image: string
  /** Null for the daemon's default. */
  runtime: string | null
  /** The folder with the agent's socket on the daemon's host; null for frames on stdin and stdout. */
  socketFolder: string | null
}

/** The container's name. Kill and clean-up use it, because a container's ID may never have arrived. */
export const containerName = (slotId: SandboxId): string => `cofferdam-${slotId}`

/** Options of the create call. /tmp is a tmpfs, so `disk_mib` is cut to `memory_mib`. */
export function containerOptions(slot: ContainerSpec): Docker.ContainerCreateOptions {
  const { limits } = slot
  const kind = runtimeKind(slot.runtime)
  const memory = (limits.memory_mib + kind.memoryOverheadMib) * MiB
  const diskMib = Math.min(limits.disk_mib, limits.memory_mib)
  const ulimit = (Name: string, value: number): { Name: string; Soft: number; Hard: number } => ({
    Name,
    Soft: value,
    Hard: value,
  })
  return {
    name: containerName(slot.slotId),
    Image: slot.image,
    Labels: { [LABELS.owner]: slot.owner, [LABELS.sandbox]: slot.slotId, [LABELS.language]: slot.language },
    Hostname: SURROUNDINGS.hostName,
    // The agent is uid 0 with three capabilities; the program becomes 65534 with none.
    User: '0:0',
    WorkingDir: '/',
    Entrypoint: agentArgv({
      python: 'python3',
      guestDir: AGENT_DIRECTORY,
      language: slot.language,
      cgroup: kind.hasCgroup,
      ownDisk: true,
      rlimits: kind.rlimits(limits),
      uid: UNPRIVILEGED,
      gid: UNPRIVILEGED,
      cell: slot.cell,
      preload: slot.preload,
      ...(slot.socketFolder === null ? {} : { socket: SOCKET_PATH }),
    }),
    Cmd: [],
    Env: [],
    AttachStdin: true,
    AttachStdout: slot.socketFolder === null,
    AttachStderr: true,
    OpenStdin: true,
    // The end of our stream ends the agent's input, and with it the container.
    StdinOnce: true,
    Tty: false,
    // NetworkDisabled avoids the prestart hook: before Docker 28, a start then takes 127 ms instead of 296.
    NetworkDisabled: true,
    HostConfig: {
      NetworkMode: 'none',
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      CapAdd: ['SETUID', 'SETGID', 'KILL'],
      Privileged: false,
      SecurityOpt: ['no-new-privileges', SECCOMP],
      Memory: memory,
      MemorySwap: memory,
      // Not NanoCpus: the daemon refuses it above the host's CPUs, while a higher quota means all CPUs.
      CpuPeriod: CFS_PERIOD_US,
      CpuQuota: Math.round(limits.cpus * CFS_PERIOD_US),
      PidsLimit: kind.pidsLimit(limits),
      Ulimits: [ulimit('nofile', SURROUNDINGS.openFiles), ulimit('core', 0)],
      Tmpfs: { '/tmp': `rw,exec,nosuid,nodev,size=${diskMib}m,nr_inodes=${inodesOf(diskMib)},mode=1777` },
      ShmSize: SURROUNDINGS.shmBytes,
      IpcMode: 'private',
      LogConfig: { Type: 'none', Config: {} },
      AutoRemove: true,
      RestartPolicy: { Name: 'no' },
      // The agent must be PID 1: with Docker's init above it, kill(-1) would prove nothing.
      Init: false,
      MaskedPaths: MASKED_PATHS,
      ReadonlyPaths: READONLY_PATHS,
      // Mounts, not Binds: the daemon then refuses a missing folder instead of creating it.
      ...(slot.socketFolder === null
        ? {}
        : {
            Mounts: [
              { Type: 'bind', Source: slot.socketFolder, Target: SOCKET_FOLDER, ReadOnly: true },
            ] satisfies Docker.MountConfig,
          }),
      ...(slot.runtime === null ? {} : { Runtime: slot.runtime }),
    },
  }
}
