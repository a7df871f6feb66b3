/** Settings of the double that can change while it runs. */
import { z } from 'zod'

export const settingsSchema = z.strictObject({
  /**
   * Lease of a heartbeat or ack in seconds, unless the client asks for one. Default 300, according to
   * SessionToolRunner.ts ("the server's default work-item lease TTL"). A fraction is allowed, for tests.
   */
  ttl_seconds: z.number().min(0.05).max(3600),
  /** `reclaim_older_than_ms` of a poll that does not say. Default 5000 (`WorkPollParams`). */
  reclaim_ms: z.number().int().min(0).max(3_600_000),
  /** Pause between two pings of an event stream. Default 15 000; Anthropic publishes no figure. */
  ping_ms: z.number().int().min(1).max(600_000),
  /** What a poll answers as `secret`: a usable one, null, or text that no client can decode. */
  secrets: z.enum(['usable', 'absent', 'broken']),
})
export type Settings = z.output<typeof settingsSchema>

export const DEFAULT_SETTINGS: Settings = {
  ttl_seconds: 300,
  reclaim_ms: 5000,
  ping_ms: 15_000,
  secrets: 'usable',
}
