/** Settings of the `e2b` backend. */
import { z } from 'zod'

/** No account lets a sandbox live longer (24 hours on Pro, 1 hour on Hobby; e2b.dev/docs). */
const LONGEST_LIFE_MS = 24 * 3_600_000

export const e2bConfigSchema = z.strictObject({
  /** File that holds the API key (`e2b_…`), readable by the worker alone. Read at every call, so that a key can be rotated. */
  api_key_file: z.string().startsWith('/').max(4096).optional(),
  /** E2B's domain, or that of a compatible service; may hold a port. */
  domain: z.string().min(1).max(255).default('e2b.app'),
  /** Replaces `https://api.<domain>`. */
  api_url: z.url({ protocol: /^https?$/ }).optional(),
  /** One origin for all sandboxes instead of `https://<port>-<id>.<domain>` (a gateway that routes by headers). */
  sandbox_url: z.url({ protocol: /^https?$/ }).optional(),
  /** Template with Python 3.8 or newer. For JavaScript and TypeScript also Node.js, 22.18 or newer. */
  template: z.string().min(1).max(128).default('base'),
  /**
   * The template is E2B's code interpreter (`code-interpreter-v1`, or one built on it), and Python programs run in its kernel: with what is
   * installed there, and with rich results as files.
   */
  code_interpreter: z.boolean().default(false),
  /** Languages that the template has. */
  languages: z
    .array(z.enum(['python', 'javascript', 'typescript', 'bash']))
    .min(1)
    .default(['python', 'javascript', 'bash']),
  /** Interpreters inside the template. */
  python: z.string().startsWith('/').max(256).default('/usr/bin/python3'),
  node: z.string().min(1).max(256).default('node'),
  /** The longest life that the account may give a sandbox. */
  max_life_ms: z.int().min(60_000).max(LONGEST_LIFE_MS).default(3_600_000),
  /** Every call but the program's own stream ends after this. */
  api_timeout_ms: z.int().min(1000).max(600_000).default(30_000),
  /** From the request for a sandbox to the agent's first frame. */
  ready_timeout_ms: z.int().min(1000).max(600_000).default(60_000),
})
export type E2bConfig = z.output<typeof e2bConfigSchema>
