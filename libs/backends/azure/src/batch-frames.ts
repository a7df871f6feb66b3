/**
 * The guest protocol for batches: where a request ends, and the exit frame of a program whose agent sent
 * none.
 */

const STOP = 'S'.charCodeAt(0)

/** Returns true for a soft stop, which is not a request. */
export const isStop = (chunk: Buffer): boolean => chunk[0] === STOP

const KILLED_FOR_MEMORY = {
  code: null,
  signal: 'SIGKILL',
  wallUs: 0,
  cpuUs: null,
  maxRssKb: 0,
  memPeak: null,
  oomKills: 1,
  pidsPeak: null,
  pidsHit: null,
  diskFull: false,
  outBytes: 0,
  errBytes: 0,
  outDropped: 0,
  errDropped: 0,
  leftovers: false,
}

/** The exit frame of a program that the service ended because it ran out of memory. */
export function endForMemory(): Buffer {
  const payload = Buffer.from(JSON.stringify(KILLED_FOR_MEMORY))
  const head = Buffer.alloc(5)
  head.write('X', 'latin1')
  head.writeUInt32LE(payload.length, 1)
  return Buffer.concat([head, payload])
}

/**
 * Returns null while frames are missing. A job is complete with its go frame and the end of its input, if it
 * has any. Every other request is one frame.
 */
export function wholeRequest(bytes: Buffer): { isRun: boolean } | null {
  const frames = [...framesOf(bytes)]
  const [first] = frames
  if (first === undefined) return null
  if (first.type !== 'J') return { isRun: false }
  const job = JSON.parse(first.payload.toString('utf8')) as { op: string; stdin?: number | null }
  if (!frames.some(({ type }) => type === 'G')) return null
  if (job.op !== 'run') return { isRun: false }
  const hasEnd = frames.some(({ type, payload }) => type === 'I' && payload.length === 0)
  return job.stdin == null || hasEnd ? { isRun: true } : null
}

function* framesOf(bytes: Buffer): Generator<{ type: string; payload: Buffer }> {
  for (let at = 0; at + 5 <= bytes.length;) {
    const length = bytes.readUInt32LE(at + 1)
    if (at + 5 + length > bytes.length) return
    yield { type: String.fromCharCode(bytes[at] ?? 0), payload: bytes.subarray(at + 5, at + 5 + length) }
    at += 5 + length
  }
}
