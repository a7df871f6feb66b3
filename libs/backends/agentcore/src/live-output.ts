/**
 * What is handed over of a program's output: pieces while it runs, and at its end the rest. Both are the cell's word; the answer
 * repeats every piece, and one that does not is no answer of this program.
 */
import { createHash, hash } from 'node:crypto'
import { CofferdamError, type RunIo } from '@cofferdam/contract'
import type { Piece } from './live-lines.ts'

/** Pieces in which output is handed over. */
const PIECE = 64 * 1024
type Stream = Piece['stream']
const STREAMS: readonly Stream[] = ['stdout', 'stderr']

export interface LiveOutput {
  /** Bytes of each stream that were handed over. */
  readonly handed: Readonly<Record<Stream, number>>
  /** Hands over a piece, up to the bound of its stream. Throws what the reader throws. */
  take(piece: Piece): Promise<void>
  /** Hands over what comes after all that was shown. */
  append(more: Record<Stream, Buffer>): Promise<void>
  /** Hands over what is left of the whole output. Throws `protocol_violation` when it begins with something else. */
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
