/** Exports for backends outside of this package. */
export { SILENT, type BackendDeps, type BackendLogger } from './deps.ts'
export { inodesOf } from './disk-inodes.ts'
export { GuestSandbox } from './guest-sandbox.ts'
export { createGuestSlot, type GuestSlot, type GuestSlotParts } from './guest-slot.ts'
export { seccompFilter } from './process/seccomp.ts'

export {
  identityOf,
  isRunning,
  killExactly,
  thisPlace,
  type ProcessIdentity,
} from './host-jail/process-identity.ts'
export { removeTree } from './host-jail/remove-tree.ts'
export { findHardwareVirtualisation } from './hardware-virtualisation.ts'

/** `jail.py`, the program that isolates itself and becomes the guest agent. */
export const JAIL_SCRIPT = new URL('process/jail.py', import.meta.url)
