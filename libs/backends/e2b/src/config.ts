/** Settings of the `e2b` backend. */
import { z } from 'zod'

/** The longest lifetime of any account (24 hours on Pro, 1 hour on Hobby; e2b.dev/docs). */
const LONGEST_LIFE_MS = 24 * 3_600_000

export const e2bConfigSchema = z.strictObject({
  api_key_file: z
    .string()
    .startsWith('/')
    .max(4096)
    .optional()
    .describe(
      'File that holds the API key (`e2b_…`), readable by the worker alone. Read at every call, so that a key can be rotated.',
    ),
  domain: z
    .string()
    .min(1)
    .max(255)
    .default('e2b.app')
    .describe('E2B’s domain, or that of a compatible service; may hold a port.'),
  api_url: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('Replaces `https://api.<domain>`.'),
  sandbox_url: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe(
      'One origin for all sandboxes instead of `https://<port>-<id>.<domain>` (a gateway that routes by headers).',
    ),
  template: z
    .string()
    .min(1)
    .max(128)
    .default('base')
    .describe(
      'Template with Python 3.8 or newer. JavaScript and TypeScript also need Node.js 22.18 or newer. E2B’s own `base` has only 20.9, so such programs are refused there when their sandbox opens.',
    ),
  code_interpreter: z
    .boolean()
    .default(false)
    .describe(
      'True: the template is E2B’s code interpreter (`code-interpreter-v1`, or one built on it). Python ' +
        'programs then run in its kernel, with the packages installed there, and rich results become files.',
    ),
  languages: z
    .array(z.enum(['python', 'javascript', 'typescript', 'bash']))
    .min(1)
    .default(['python', 'javascript', 'bash'])
    .describe('Languages that the template has.'),
  python: z
    .string()
    .startsWith('/')
    .max(256)
    .default('/usr/bin/python3')
    .describe('Python inside the template.'),
  node: z.string().min(1).max(256).default('node').describe('Node.js inside the template.'),
  max_life_ms: z
    .int()
    .min(60_000)
    .max(LONGEST_LIFE_MS)
    .default(3_600_000)
    .describe('The longest life that the account may give a sandbox.'),
  api_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(30_000)
    .describe('Time-out of each call, except for the stream of a program.'),
  ready_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(60_000)
    .describe('Longest time from the request for a sandbox to the guest agent’s first frame.'),
})
export type E2bConfig = z.output<typeof e2bConfigSchema>
