/** What a backend outside of this package is built from. */
export { SILENT, type BackendDeps, type BackendLogger } from './deps.ts'
export { inodesOf } from './disk-inodes.ts'
export { GuestSandbox } from './guest-sandbox.ts'
export { createGuestSlot, type GuestSlot, type GuestSlotParts } from './guest-slot.ts'
export { seccompFilter } from './process/seccomp.ts'

/** The program that fences itself in and becomes the guest agent: `jail.py`. */
export const JAIL_SCRIPT = new URL('process/jail.py', import.meta.url)
