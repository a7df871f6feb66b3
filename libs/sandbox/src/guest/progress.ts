/** What a program says of its progress: which programs may, and what of it is taken. */
import type { Program, ProgramFile, Progress } from '@cofferdam/contract'
import { violation } from './protocol.ts'

/** Fraction, 240 characters of at most four bytes, and what stands between them; the agent has the same bound. */
const REPORT_BYTES = 1024
const WORD = 'cofferdam'

/** Whether the word that a program must name to report stands anywhere in it. */
export function mentionsReports(program: Program, files: readonly ProgramFile[]): boolean {
  const texts =
    program.type === 'script'
      ? [program.source]
      : program.type === 'command'
        ? [program.shell ?? '', ...(program.argv ?? [])]
        : []
  return (
    texts.some((text) => text.includes(WORD)) ||
    files.some(({ bytes }) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).includes(WORD))
  )
}

/** Reads one report; null for what is none, since the program itself may have written it. Throws `protocol_violation` for one that is too long. */
export function parseReport(payload: Buffer): Progress | null {
  if (payload.length > REPORT_BYTES) throw violation(`a report of ${payload.length} bytes`)
  const text = payload.toString('utf8')
  const [, number, message = ''] = /^(\d{1,3}(?:\.\d{1,12})?|\.\d{1,12})(?: (.*))?$/s.exec(text) ?? []
  if (number === undefined) return null
  const fraction = Math.min(1, Number(number))
  // eslint-disable-next-line no-control-regex
  const plain = message.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').trim()
  return { fraction, message: plain }
}
