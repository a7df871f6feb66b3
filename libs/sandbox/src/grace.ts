/** How long a program has to end by itself once it was asked to. */
import type { SandboxSpec } from '@cofferdam/contract'

/** Deadlines that fall together still leave a program the time to print its last words. */
const GRACE_MIN_MS = 100

/** Milliseconds between the soft and the hard deadline; the program gets SIGTERM after half of them. */
export const graceOf = ({ limits }: Pick<SandboxSpec, 'limits'>): number =>
  Math.max(GRACE_MIN_MS, limits.hard_timeout_ms - limits.soft_timeout_ms)
