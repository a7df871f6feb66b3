/** Parses the agent's reports in JSON (R, X) and binary (A). Strict: programs may forge them. */
import { constants } from 'node:os'
import { z } from 'zod'
import { boundedRecord, BOUNDS, INTERPRETER_FINDINGS, type Exit, type Usage } from '@cofferdam/contract'
import { PROTOCOL_VERSION, violation } from './protocol.ts'

const count = z.int().min(0).max(Number.MAX_SAFE_INTEGER)

const readySchema = z.union([
  z.strictObject({
    protocol: z.literal(PROTOCOL_VERSION),
    /** Python that runs the agent. */
    agentPython: z.string().max(64),
    /** Version of the waiting interpreter, by its language. Empty if none waits (`bash`, `none`). */
    languages: boundedRecord(z.string().max(32), z.string().max(64), 32, 'languages'),
    cgroup: z.enum(['v1', 'v2']).nullable(),
    /** True when agent and program have different uids. */
    uidSplit: z.boolean(),
    /** True when the agent is PID 1 of a pid namespace. */
    ownsPids: z.boolean(),
    /** Release of the kernel that the agent runs on. The first agents of protocol 1 do not report it. */
    kernel: z.string().max(128).default(''),
    bootMs: count,
    /** What this agent can do that the first ones of protocol 1 could not. */
    features: z.array(z.string().max(32)).max(16).default([]),
  }),
  z.strictObject({
    protocol: z.literal(PROTOCOL_VERSION),
    error: z.literal('interpreter_not_ready'),
    message: z.string().max(4096),
  }),
])
type Ready = z.infer<typeof readySchema>
/** What the agent reports when its sandbox is ready. */
export type GuestReady = Exclude<Ready, { error: string }>

const SIGNALS: ReadonlySet<string> = new Set(Object.keys(constants.signals))

const exitSchema = z.strictObject({
  code: z.int().min(0).max(255).nullable(),
  signal: z
    .string()
    .refine((name) => SIGNALS.has(name) || /^SIG\d{1,2}$/.test(name))
    .nullable(),
  wallUs: count,
  cpuUs: count.nullable(),
  maxRssKb: count,
  memPeak: count.nullable(),
  oomKills: count.nullable(),
  pidsPeak: count.nullable(),
  pidsHit: count.nullable(),
  /** Processes that were left and killed. The first agents of protocol 1 do not report it. */
  left: count.default(0),
  /** The first agents of protocol 1 do not report readBytes, writeBytes and diskBytes. */
  readBytes: count.nullable().default(null),
  writeBytes: count.nullable().default(null),
  diskBytes: count.nullable().default(null),
  diskFull: z.boolean(),
  outBytes: count,
  errBytes: count,
  outDropped: count,
  errDropped: count,
  /** True when the agent could not prove that all processes of the program are gone. */
  leftovers: z.boolean(),
  /** Whether the kept interpreter waits for the session's next run. Only with `keepInterpreter`. */
  alive: z.boolean().optional(),
  /** Whether earlier runs left that interpreter (`keepInterpreter`). First agents do not report it. */
  interpreter: z.enum(INTERPRETER_FINDINGS).optional(),
})

function json(payload: Buffer, frame: string): unknown {
  try {
    return JSON.parse(payload.toString('utf8')) as unknown
  } catch {
    throw violation(`frame ${frame} is not JSON`)
  }
}

/** Parses R. Throws `protocol_violation`. */
export function parseReady(payload: Buffer): Ready {
  const parsed = readySchema.safeParse(json(payload, 'R'))
  if (!parsed.success) throw violation('frame R has another shape')
  return parsed.data
}

/** Parses X: evidence, and whether a kept interpreter lives. Throws `protocol_violation`. */
export function parseExit(payload: Buffer, valueJson: string | undefined): { exit: Exit; alive: boolean } {
  const parsed = exitSchema.safeParse(json(payload, 'X'))
  if (!parsed.success || (parsed.data.code === null) === (parsed.data.signal === null))
    throw violation('frame X has another shape')
  const seen = parsed.data
  const exit: Exit = {
    exitCode: seen.code,
    signal: seen.signal,
    usage: {
      cpu_ms: seen.cpuUs === null ? null : seen.cpuUs / 1000,
      peak_memory_bytes: seen.memPeak ?? seen.maxRssKb * 1024,
      read_bytes: seen.readBytes,
      write_bytes: seen.writeBytes,
      pids_peak: seen.pidsPeak,
      disk_bytes: seen.diskBytes,
      wall_ms: seen.wallUs / 1000,
    },
    outputBytes: { stdout: seen.outBytes, stderr: seen.errBytes },
    outputDropped: { stdout: seen.outDropped > 0, stderr: seen.errDropped > 0 },
    oomKills: seen.oomKills ?? 0,
    pidsLimitHit: (seen.pidsHit ?? 0) > 0,
    processesLeft: seen.left,
    diskLimitHit: seen.diskFull,
    ...(valueJson === undefined ? {} : { valueJson }),
    ...(seen.interpreter === undefined ? {} : { interpreter: seen.interpreter }),
  }
  return { exit, alive: seen.alive === true }
}

/** Parses A. Throws `protocol_violation`. */
export function parseUsage(payload: Buffer): Usage {
  // The first agents of protocol 1 sent five numbers.
  if (payload.length !== 40 && payload.length !== 56) throw violation(`frame A of ${payload.length} bytes`)
  const at = (index: number): number | null => {
    if (payload.length < index * 8 + 8) return null
    const value = payload.readBigUInt64LE(index * 8)
    return value > BigInt(Number.MAX_SAFE_INTEGER) ? null : Number(value)
  }
  const cpuUs = at(0)
  return {
    cpu_ms: cpuUs === null ? null : cpuUs / 1000,
    peak_memory_bytes: at(1),
    read_bytes: at(2),
    write_bytes: at(3),
    pids_peak: at(5),
    disk_bytes: at(6),
    wall_ms: (at(4) ?? 0) / 1000,
  }
}

/** The text of V if it is JSON, else undefined (forged). Throws `protocol_violation` above the limit. */
export function parseValue(payload: Buffer): string | undefined {
  if (payload.length > BOUNDS.valueBytes) throw violation(`frame V of ${payload.length} bytes`)
  const text = payload.toString('utf8')
  try {
    JSON.parse(text)
    return text
  } catch {
    return undefined
  }
}
