/** Exports for backends outside of this package. */
export { SILENT, type BackendDeps, type BackendLogger, type Sealing } from './deps.ts'
export { inodesOf } from './disk-inodes.ts'
export { GuestSandbox } from './guest-sandbox.ts'
export { findHardwareVirtualisation } from './hardware-virtualisation.ts'
export { createGuestSlot, type GuestSlot, type GuestSlotParts, type RunWatch } from './guest-slot.ts'
export {
  findMarked,
  identityOf,
  isRunning,
  killExactly,
  MARK,
  thisPlace,
  waitGone,
  type ProcessIdentity,
} from './host-jail/process-identity.ts'
export { cgroupAt, createCgroups, type Cgroup, type Cgroups } from './host-jail/cgroups.ts'
export { createRecords, isSlotId, ORPHAN_MS, type Records } from './host-jail/records.ts'
export { removeTree } from './host-jail/remove-tree.ts'
export { defaultRuntimeDir, ensureRuntimeDir } from './host-jail/runtime-dir.ts'
export { seccompFilter } from './process/seccomp.ts'

/** `jail.py`, the program that isolates itself and becomes the guest agent. */
export const JAIL_SCRIPT = new URL('process/jail.py', import.meta.url)
