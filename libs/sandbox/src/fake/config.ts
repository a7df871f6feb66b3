/** Settings of the `fake` backend. */
import { z } from 'zod'

export const fakeConfigSchema = z.strictObject({
  open_ms: z
    .int()
    .min(0)
    .max(60_000)
    .default(0)
    .describe('Milliseconds that `open` takes; 0 resolves in a microtask.'),
  max_sandboxes: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(10_000)
    .describe('Sandboxes at once, so that a leak in a test shows as an error and not as a slow process.'),
})
export type FakeConfig = z.output<typeof fakeConfigSchema>
