/**
 * Starts and ends virtual machines. An engine knows nothing of programs: it boots an image once, keeps a
 * snapshot (the template), and makes clones of it, each used once. thaw.ts defines the messages to the guest.
 */
import type { Duplex, Readable, Writable } from 'node:stream'
import type { ProcessIdentity } from '@cofferdam/sandbox/backend'

/** Ports of the guest, which vm_init.py serves: its first process, and the guest agent. */
export const CONTROL_PORT = 5004
export const AGENT_PORT = 5005

export interface MicrovmEngine {
  readonly name: 'firecracker' | 'qemu'
  /** True if a clone runs on hardware virtualisation. Otherwise the isolation is `microvm-emulated`. */
  readonly hardware: boolean
  /** Whether it can be used here. `why` and `fix` name the first thing that is missing. */
  probe(): Promise<EngineProbe>
  /**
   * What a template depends on beside image and size: version of the VMM, its flags, model of the CPU. Part
   * of the template's key.
   */
  templateKey(): Promise<string>
  /**
   * Boots an image in `folder`, which exists and is empty. Lets `prepare` talk to the guest, then saves state
   * and memory in the folder and ends the machine. It is never resumed. Leaves no process when it throws.
   */
  createTemplate(
    spec: MachineSpec,
    folder: string,
    prepare: (connect: Connect) => Promise<void>,
    signal: AbortSignal,
  ): Promise<MachineTemplate>
  /** Starts a clone of the template, which is used once. Leaves no process when it throws. */
  restore(template: MachineTemplate, lease: MachineLease, signal: AbortSignal): Promise<Machine>
  /**
   * Starts a machine that goes on from what another machine's `save` wrote. If it throws, it has destroyed
   * `saved.state` and leaves no process. Undefined for engines that cannot save.
   */
  resume?(saved: SavedMachine, lease: MachineLease, signal: AbortSignal): Promise<Machine>
  /** Kills what a dead worker left of a machine, and proves it. True if there was something. */
  killLeft(left: LeftMachine): Promise<boolean>
}

export type EngineProbe =
  | { ok: true; /** One line each. */ features: string[] }
  | { ok: false; why: string; fix: string }

/** A byte stream to a port of the guest. May be called once per port. */
export type Connect = (port: number) => Promise<Duplex>

export interface MachineSpec {
  kernel: string
  initramfs: string
  root: string
  memoryMib: number
  vcpus: number
  /** Further words of the kernel’s command line. */
  kernelArguments?: string
}

/** Files that no clone changes. Every clone maps the memory privately. */
export interface MachineTemplate {
  spec: MachineSpec
  /** Device state. */
  state: string
  /** Memory of the guest. */
  memory: string
}

/** What `save` wrote. `state` includes the memory, so no file of a template is needed. */
export interface SavedMachine {
  spec: MachineSpec
  state: Readable
}

/**
 * A machine's folder and name. The folder exists before the process, so that another worker can find both.
 */
export interface MachineLease {
  /** A folder of this machine alone. Its creator removes it once the machine is proven gone. */
  folder: string
  /** Name of the machine. Unguessable, because a process that carries it counts as this machine's process. */
  id: string
  /** Called with the pid of the VMM before anything is sent to it. */
  started(pid: number): Promise<void>
}

export interface LeftMachine {
  id: string
  /** Null if its worker died before it could record the process. */
  process: ProcessIdentity | null
}

export interface Machine extends AsyncDisposable {
  /** Names it in logs. */
  readonly ref: string
  readonly connect: Connect
  /**
   * Stops the machine, writes its state and memory to `to`, and ends that stream. The machine then waits for
   * `goOn` or `kill`. After a rejection it can still go on. Undefined for engines that cannot save.
   */
  save?(to: Writable, signal: AbortSignal): Promise<void>
  /** Lets a machine that `save` stopped run on, also after a `save` that rejected. */
  goOn?(): Promise<void>
  /** SIGKILL to the VMM. Resolves when it is proven gone. Idempotent. */
  kill(): Promise<void>
  /** Resolves when the VMM has ended, by itself or not. `oom`: the host’s kernel killed it for memory. */
  readonly exited: Promise<MachineExit>
}

export interface MachineExit {
  code: number | null
  signal: string | null
  oom: boolean
}
