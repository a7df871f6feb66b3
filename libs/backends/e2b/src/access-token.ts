/**
 * Access tokens by slot. They are not in a slot's handle, because handles are stored (in refs and registry
 * entries).
 */
import type { RemoteSlot } from '@cofferdam/backend-remote'

const tokens = new WeakMap<RemoteSlot, string>()

/** Remembers the token for as long as the slot exists. */
export const keepAccessToken = (slot: RemoteSlot, token: string): void => void tokens.set(slot, token)

/** Empty if the sandbox has none. */
export const accessTokenOf = (slot: RemoteSlot): string => tokens.get(slot) ?? ''
