/** The command line of QEMU. Template and clones must have the same machine, or the state does not fit. */
import { AGENT_PORT, CONTROL_PORT } from '../engine.ts'

/**
 * Descriptors that QEMU inherits: a socket each for QMP and the ports of the guest, then files. So QEMU may
 * run as a user who cannot reach these files by their paths.
 */
export const FDS = {
  qmp: 3,
  control: 4,
  agent: 5,
  state: 6,
  memory: 7,
  kernel: 8,
  initramfs: 9,
  root: 10,
  /**
   * The folder of the machine's lease. To save a machine, the worker listens on a socket there, and QEMU
   * connects to it.
   */
  folder: 11,
} as const

export interface QemuStart {
  /** The name of the process for people. */
  name: string
  memoryMib: number
  vcpus: number
  accelerator: 'kvm' | 'tcg'
  /**
   * A template writes to the memory file. A clone has a private copy of the pages that it changes. A resumed
   * machine gets its memory in the same stream as its state.
   */
  use: 'template' | 'clone' | 'resumed'
  /** Frequency of this host's time-stamp counter (TSC), in kHz. */
  counterKhz: number
  kernelArguments?: string | undefined
}

const opened = (fd: number): string => `/proc/self/fd/${fd}`

/**
 * `tsc_early_khz` tells the guest the speed of its counter. An emulated guest would otherwise measure it
 * against timers that a busy host delays, and hang. ACPI stays on, because Debian's kernel finds the devices
 * only by it.
 */
const kernelLine = (start: QemuStart): string =>
  [
    `tsc_early_khz=${start.counterKhz}`,
    'tsc=reliable quiet loglevel=1 console=ttyS0 panic=-1 reboot=t random.trust_cpu=1 mitigations=auto',
    'cgroup_no_v1=all',
    ...(start.kernelArguments === undefined ? [] : [start.kernelArguments]),
  ].join(' ')

export function qemuArguments(start: QemuStart): string[] {
  const { memoryMib, vcpus, accelerator, use } = start
  const size = `id=memory,size=${memoryMib}M`
  const file = `memory-backend-file,${size},mem-path=${opened(FDS.memory)}`
  const memory = {
    template: `${file},share=on`,
    clone: `${file},share=off`,
    resumed: `memory-backend-ram,${size}`,
  }[use]
  // A template, in which nobody's program runs, starts the command that saves its state.
  const spawn = use === 'template' ? 'allow' : 'deny'
  const fence = `on,obsolete=deny,elevateprivileges=deny,resourcecontrol=deny,spawn=${spawn}`
  const port = (name: string, fd: number, number: number): Option[] => [
    ['chardev', `socket,id=${name},fd=${fd}`],
    ['device', `virtserialport,bus=serial.0,chardev=${name},name=p${number}`],
  ]
  const options: Option[] = [
    ['name', start.name],
    ['nodefaults'],
    ['no-user-config'],
    ['display', 'none'],
    ['no-reboot'],
    ['machine', 'microvm,x-option-roms=off,isa-serial=on,rtc=on,memory-backend=memory'],
    ['accel', accelerator],
    ['cpu', accelerator === 'kvm' ? 'host' : 'max'],
    ['smp', String(vcpus)],
    ['m', `${memoryMib}M`],
    ['object', memory],
    ['kernel', opened(FDS.kernel)],
    ['initrd', opened(FDS.initramfs)],
    ['append', kernelLine(start)],
    // The console of a machine that fails to boot. Programs cannot write to it.
    ['chardev', 'socket,id=console,fd=1'],
    ['serial', 'chardev:console'],
    ['drive', `file=${opened(FDS.root)},if=none,id=root,readonly=on,format=raw`],
    ['device', 'virtio-blk-device,drive=root'],
    ['device', 'virtio-serial-device,id=serial'],
    ...port('control', FDS.control, CONTROL_PORT),
    ...port('agent', FDS.agent, AGENT_PORT),
    ['chardev', `socket,id=qmp,fd=${FDS.qmp}`],
    ['mon', 'chardev=qmp,mode=control'],
    ['sandbox', fence],
  ]
  if (use !== 'template') options.push(['incoming', 'defer'])
  return options.flatMap(([name, value]) => (value === undefined ? [`-${name}`] : [`-${name}`, value]))
}

type Option = [name: string, value?: string]
