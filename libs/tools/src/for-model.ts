/** A result as a model reads it: text that says first how it ended, then images. */
import { cleanText } from './clean-text.ts'
import type { CodeResult, Problem } from './code-result.ts'
import { headAndTail, keepLastLines } from './cut-text.ts'

export type ModelPart =
  | { type: 'text'; text: string }
  | { type: 'image'; mediaType: string; data: string; name: string }

export interface ModelOptions {
  /** Characters of text in all. Default: 20,000. At least 1,000. */
  maxChars?: number
}

const MAX_CHARS = { default: 20_000, least: 1000 }
/** Shares of the text: what the platform says, the value, and the standard error. Output gets the rest. */
const FACTS_SHARE = 0.3
const VALUE_SHARE = 0.2
const STDERR_SHARE = 0.35
/** For the labels of sections and the empty lines between them, in characters. */
const LABELS = 200

/**
 * At most `maxChars` characters of text, and the images as parts of their own. Output loses its middle, and
 * errors keep their last lines. Throws RangeError for fewer than 1,000 characters.
 */
export function forModel(
  result: CodeResult,
  { maxChars = MAX_CHARS.default }: ModelOptions = {},
): ModelPart[] {
  if (!(maxChars >= MAX_CHARS.least))
    throw new RangeError(`maxChars: expected at least ${MAX_CHARS.least}, got ${maxChars}`)
  const images = result.images.map(({ media_type, data, path }) => ({
    type: 'image' as const,
    mediaType: media_type,
    data,
    name: path,
  }))
  return [{ type: 'text', text: textOf(result, maxChars) }, ...images]
}

/** The text alone, for SDKs and models without images. */
export const textForModel = (result: CodeResult, options?: ModelOptions): string =>
  forModel({ ...result, images: [] }, options)
    .map((part) => (part.type === 'text' ? part.text : ''))
    .join('')

function textOf(result: CodeResult, maxChars: number): string {
  const room = Math.floor(maxChars - LABELS)
  const factsMax = Math.floor(room * FACTS_SHARE)
  const { stdout_tail: tail, stdout_bytes, stderr_bytes } = result
  const value = result.value === undefined ? '' : cleanText(JSON.stringify(result.value))
  const shownValue = headAndTail(value, Math.floor(room * VALUE_SHARE))
  const stderr = cleanText(result.stderr)
  const shownError = keepLastLines(stderr, Math.floor(room * STDERR_SHARE))
  const longFacts = factsOf(result, factsMax, CUT_HINT)
  const stdout = tail === undefined ? cleanText(result.stdout) : gapped(result, tail)
  const shownOutput = headAndTail(stdout, room - shownValue.length - shownError.length - longFacts.length)
  const isCut =
    shownOutput !== stdout || shownError !== stderr || result.stdout_truncated || result.stderr_truncated
  return [
    isCut ? longFacts : factsOf(result, factsMax),
    section('value', shownValue),
    section(`stdout, ${stdout_bytes} bytes`, shownOutput),
    section(`stderr, ${stderr_bytes} bytes`, shownError),
  ]
    .filter((text) => text !== '')
    .join('\n\n')
}

const CUT_HINT =
  'Not all of the output is here. Print only what you need, or write it to a file and print parts of it.'

/** Head and tail of a long output, with a line between them that says how many bytes were left out. */
function gapped({ stdout, stdout_bytes, stdout_tail = '' }: CodeResult, tail: string): string {
  const here = new TextEncoder().encode(stdout + stdout_tail).length
  const left = stdout_bytes > here ? `… ${stdout_bytes - here} bytes left out …` : '…'
  return `${cleanText(stdout)}\n${left}\n${cleanText(tail)}`
}

const section = (label: string, text: string): string =>
  text === '' ? '' : `${label}:\n${text.replace(/\n$/, '')}`

/** What the platform says, at most `max` characters. The first lines are the most important ones. */
function factsOf(result: CodeResult, max: number, hint = ''): string {
  const { error, error_message, session, artifacts, images } = result
  const message = error === undefined ? '' : `${error}: ${cleanText(error_message ?? '')}`
  const lines = [
    headline(result),
    result.problem === undefined
      ? headAndTail(message, Math.floor(max / 2))
      : problemText(result.problem, max),
    session === undefined ? '' : `Session: ${session.fresh ? 'new, nothing was there before' : 'continued'}.`,
    hint,
    images.length === 0 ? '' : `Shown as images: ${names(images, max / 8)}`,
    artifacts.length === 0 ? '' : `Artifacts: ${names(artifacts, max / 8)}`,
  ]
  return headAndTail(lines.filter((line) => line !== '').join('\n'), max, 1)
}

const names = (files: readonly { path: string }[], max: number): string =>
  headAndTail(files.map(({ path }) => cleanText(path).replaceAll('\n', '�')).join(', '), Math.floor(max))

function headline({ status, ending, exit_code, duration_ms, execution_id, problem }: CodeResult): string {
  const named = execution_id === undefined ? '' : ` execution_id: ${execution_id}`
  if (status === 'running') return `Not ended yet. It goes on.${named}`
  if (status === 'cancelled') return `Cancelled.${named}`
  if (status === 'refused') return `Refused: ${problem?.code ?? ending}. Nothing ran.${named}`
  if (status === 'failed') return `The sandbox failed: ${problem?.code ?? ending}.${named}`
  const code = typeof exit_code === 'number' ? `, exit code ${exit_code}` : ''
  return `Ended: ${ending}${code}, ${Math.round(duration_ms ?? 0)} ms.${named}`
}

function problemText({ message, retry, retry_at }: Problem, max: number): string {
  const said = headAndTail(cleanText(message), Math.floor(max / 2))
  const stop = /[.!?]$/.test(said) ? said : `${said}.`
  if (retry_at !== undefined) return `${stop} Do not repeat the call before ${retry_at}${fromNow(retry_at)}.`
  if (retry === 'never') return `${stop} The same call will be refused again. Call differently, or stop.`
  return `${stop} The same call may work ${retry === 'later' ? 'later' : 'elsewhere'}.`
}

/** For models, which have no clock: ` (in 3 h 5 min)`. Empty for a time that has passed. */
function fromNow(time: string): string {
  const seconds = Math.ceil((Date.parse(time) - Date.now()) / 1000)
  if (!(seconds > 0)) return ''
  if (seconds < 120) return ` (in ${seconds} s)`
  const minutes = Math.ceil(seconds / 60)
  return minutes < 60 ? ` (in ${minutes} min)` : ` (in ${Math.floor(minutes / 60)} h ${minutes % 60} min)`
}
