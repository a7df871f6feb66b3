/** The file double.json beside the double's binaries: its settings, and the failures that a test asks for. */
import { readFileSync } from 'node:fs'
import { z } from 'zod'

/**
 * How one call of the API fails. `400` and `500` are answered with that status. `die` and `hang` come before
 * an answer, `close` in the middle of one. `junk` is not HTTP.
 */
const apiFault = z.enum(['400', '500', 'die', 'hang', 'close', 'junk'])
export type ApiFault = z.infer<typeof apiFault>

const vsockFault = z.enum(['close', 'half', 'junk', 'long', 'silent'])
export type VsockFault = z.infer<typeof vsockFault>

/**
 * What the jailer does. `no-pid`: it writes no pid file. `wrong-pid`: the file names another process. `fail`,
 * `hang`: it exits or hangs before it starts anything.
 */
const jailerFault = z.enum(['fail', 'hang', 'no-pid', 'wrong-pid'])

const doubleSchema = z.strictObject({
  version: z.string(),
  /**
   * Whether a limit whose cgroup controller is missing is refused. If not, it is left out, for hosts that
   * have the controller in cgroup v1.
   */
  needsControllers: z.boolean(),
  /** Whether the VMM runs as the machine’s user. That user must be able to read these sources. */
  dropsUser: z.boolean(),
  node: z.string(),
  main: z.string(),
  agent: z.array(z.string()).min(1),
  bootMs: z.int().min(0),
  /** If set, guests are real machines of QEMU instead of processes. The initramfs has the bridge. */
  machines: z.strictObject({ kernel: z.string(), initramfs: z.string(), root: z.string() }).nullable(),
  faults: z.strictObject({
    /** By call, as in `PUT /snapshot/load`. */
    api: z.record(z.string(), apiFault).default({}),
    vsock: vsockFault.nullable().default(null),
    jailer: jailerFault.nullable().default(null),
    /** The guest never listens. */
    mute: z.boolean().default(false),
  }),
  /** File that gets one line of JSON per call that has no fault. Tests read it. */
  record: z.string().nullable(),
})
export type DoubleConfig = z.infer<typeof doubleSchema>

export const readDouble = (path: string): DoubleConfig =>
  doubleSchema.parse(JSON.parse(readFileSync(path, 'utf8')))
