/**
 * Finds the answer of a cell (our program in a session) in a tool's output: one line with the request's nonce
 * and of limited size.
 */
import { promisify } from 'node:util'
import { inflate } from 'node:zlib'
import { CofferdamError, INTERPRETER_FINDINGS } from '@cofferdam/contract'
import { z } from 'zod'
import type { ToolResult } from './consume-stream.ts'

const unzip = promisify(inflate)
/** Heads are small. The largest hold a listing of 10,000 paths of at most 4 KiB. */
const HEAD_MAX = 48 * 1024 * 1024

const count = z.int().min(0)
const headSchema = z.object({
  sizes: z.tuple([count, count]),
  failed: z.string().max(64).optional(),
  message: z.string().optional(),
  outcome: z.enum(['not_begun', 'no_end']).optional(),
  /** With `not_begun`: the program never begins under this name. Cells of earlier releases do not set it. */
  for_good: z.boolean().optional(),
  entries: z.array(z.object({ path: z.string(), size: count })).optional(),
  exit: z
    .object({
      code: z.int().min(0).max(255).nullable(),
      signal: z.string().max(16).nullish(),
      value: z.string().nullish(),
      stopped: z.boolean().optional(),
      killed: z.boolean().optional(),
      oom: count.optional(),
      wall_ms: z.number().min(0).optional(),
      /**
       * Only for a program that ran in the session's interpreter: whether that interpreter was kept. Cells of
       * earlier releases do not set it.
       */
      interpreter: z.enum(INTERPRETER_FINDINGS).optional(),
    })
    .optional(),
  bytes: z.tuple([count, count]).optional(),
  dropped: z.tuple([z.boolean(), z.boolean()]).optional(),
  disk_full: z.boolean().optional(),
})

export interface Answer {
  head: z.output<typeof headSchema>
  stdout: Buffer
  stderr: Buffer
}

/**
 * Returns the answer to the request with that nonce. Null if there is none, because a program may end the
 * interpreter. Throws `protocol_violation` for a broken answer or more than `most` bytes of output.
 */
export async function readAnswer(result: ToolResult, nonce: string, most: number): Promise<Answer | null> {
  const begin = `@cofferdam:${nonce}:`
  // A failed command has all its output on stderr.
  const text = [result.stdout, result.stderr].find((stream) => stream.includes(begin))
  if (text === undefined) return null
  const from = text.indexOf(begin) + begin.length
  const to = text.indexOf('@', from)
  if (to < 0) throw violation('an answer is cut', { details: { reason: 'cut_answer' } })
  const bytes = await unzip(Buffer.from(text.slice(from, to), 'base64'), {
    maxOutputLength: most + HEAD_MAX,
  }).catch((error: unknown) => {
    throw violation('an answer cannot be unpacked', { cause: error })
  })
  if (bytes.length < 4) throw violation('an answer is too short')
  const headEnd = 4 + bytes.readUInt32BE(0)
  const head = headSchema.safeParse(parsed(bytes.subarray(4, headEnd)))
  if (!head.success) throw violation('an answer is not what a cell says', { cause: head.error })
  const [out, err] = head.data.sizes
  if (headEnd + out + err !== bytes.length || out + err > most)
    throw violation('an answer has another size than it says')
  return {
    head: head.data,
    stdout: bytes.subarray(headEnd, headEnd + out),
    stderr: bytes.subarray(headEnd + out),
  }
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return null
  }
}

const violation = (
  what: string,
  more: { cause?: unknown; details?: Record<string, unknown> } = {},
): CofferdamError => new CofferdamError('protocol_violation', `AgentCore: ${what}.`, more)
