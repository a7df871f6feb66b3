/** What stands behind the API of the double: a process of this host (process-guest.ts), or a real machine. */
import type { Readable, Writable } from 'node:stream'

export interface MachineSize {
  memoryMib: number
  vcpus: number
  /** The kernel’s command line, as the API was told. */
  bootArgs: string
}

export interface Guest {
  /** Resolves when it has begun to boot, not when it listens. */
  boot(size: MachineSize): Promise<void>
  /** From here on it listens nowhere, until `resume`. */
  pause(): void
  resume(): void
  /** A stream to a port, or null if nobody listens there. */
  connect(port: number): Promise<GuestStream | null>
  /**
   * Writes the state and the memory while the guest is paused. The memory file is as large as the machine's
   * memory.
   */
  save(state: string, memory: string, size: MachineSize): Promise<void>
  /** Starts from both files. A process is then paused until `resume`; a machine of QEMU runs at once. */
  load(state: string, memory: string, size: MachineSize): Promise<void>
  end(): void
}

/** Both directions of a connection. */
export interface GuestStream {
  readable: Readable
  writable: Writable
  close(): void
}
