/**
 * Passes a program's output on: pieces while it runs, and the rest at its end. Both come from the cell (our
 * program in the session). The answer repeats every piece; an answer that does not is refused.
 */
import { createHash, hash } from 'node:crypto'
import { CofferdamError, type RunIo } from '@cofferdam/contract'
import type { Piece } from './live-lines.ts'

/** Maximum bytes that are passed on at once. */
const PIECE = 64 * 1024
type Stream = Piece['stream']
const STREAMS: readonly Stream[] = ['stdout', 'stderr']

export interface LiveOutput {
  /** Bytes of each stream that were passed on. */
  readonly handed: Readonly<Record<Stream, number>>
  /** Passes on a piece, up to the limit of its stream. Throws what the reader throws. */
  take(piece: Piece): Promise<void>
  /** Passes on output that follows everything shown so far. */
  append(more: Record<Stream, Buffer>): Promise<void>
  /** Passes on the rest of the whole output. Throws `protocol_violation` if it begins differently. */
  finish(whole: Record<Stream, Buffer>): Promise<void>
}

/** For one run; `most` bounds each stream. */
export function createLiveOutput(io: Pick<RunIo, 'onOutput'>, most: RunIo['maxOutputBytes']): LiveOutput {
  const handed = { stdout: 0, stderr: 0 }
  const seen = { stdout: createHash('sha256'), stderr: createHash('sha256') }

  const output: LiveOutput = {
    handed,
    async take({ stream, bytes }) {
      const fits = bytes.subarray(0, most[stream] - handed[stream])
      for (let at = 0; at < fits.length; at += PIECE) {
        const piece = fits.subarray(at, at + PIECE)
        handed[stream] += piece.length
        seen[stream].update(piece)
        await io.onOutput(stream, piece)
      }
    },
    async append(more) {
      for (const stream of STREAMS) await output.take({ stream, bytes: more[stream] })
    },
    async finish(whole) {
      for (const stream of STREAMS)
        if (hash('sha256', whole[stream].subarray(0, handed[stream])) !== seen[stream].copy().digest('hex'))
          throw new CofferdamError(
            'protocol_violation',
            'AgentCore: the output is not what was shown before.',
          )
      const { stdout, stderr } = handed
      await output.append({ stdout: whole.stdout.subarray(stdout), stderr: whole.stderr.subarray(stderr) })
    },
  }
  return output
}
