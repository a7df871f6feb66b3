/** What opens the services of a sandbox that runs, beside its slot: a handle goes into refs and entries, where no secret may stand. */
import type { RemoteSlot } from '@cofferdam/backend-remote'

const tokens = new WeakMap<RemoteSlot, string>()

/** Remembers it for as long as the slot is there. */
export const keepAccessToken = (slot: RemoteSlot, token: string): void => void tokens.set(slot, token)

/** Empty where the sandbox has none. */
export const accessTokenOf = (slot: RemoteSlot): string => tokens.get(slot) ?? ''
