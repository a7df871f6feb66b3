/**
 * Combines the events of one tool call into its answer. Each event holds the whole result or a part of it:
 *
 *    stdout, stderr    text that begins with the text so far replaces it; any other text is appended
 *    other fields      the last value that is set
 *    text only         joined, if no event has structured content; `isError` then means exit code 1
 *
 * A stream without any result is a failure: the service ended it before it reported how the call went.
 */
import type {
  CodeInterpreterResult,
  CodeInterpreterStreamOutput,
  ContentBlock,
} from '@aws-sdk/client-bedrock-agentcore'
import { CofferdamError, inTime } from '@cofferdam/contract'

/** A call's answer. `stdout` may hold up to 100 MB, the service's limit. */
export interface ToolResult {
  stdout: string
  stderr: string
  exitCode: number | null
  isError: boolean
  taskId: string | null
  taskStatus: string | null
  /** As the service sends it: seconds in others' measurements, milliseconds by its documentation. */
  executionTime: number | null
  content: ContentBlock[]
}

/** Source of a text: an event without structured content, or a stream in structured content. */
export type TextSource = 'text' | 'stdout' | 'stderr'
/**
 * Receives a text. The next event is read when the promise resolves. The service sends most output
 * twice: as `text`, and again as `stdout` or `stderr`.
 */
export type OnText = (source: TextSource, text: string) => Promise<void>

/** The service's limit is 100 MB. It may send an answer twice: as text and as structured content. */
const ANSWER_MAX = 2 * 100_000_000

/** Longest wait for further events after a result that says how the call ended. */
const DRAIN_MS = 2000

/**
 * Reads to the end or until nothing follows a complete result. Throws the SDK's errors for error frames,
 * `sandbox_lost` without a result, `protocol_violation` for an endless stream, and what `onText` throws.
 */
export async function consumeStream(
  stream: AsyncIterable<CodeInterpreterStreamOutput>,
  onText?: OnText,
): Promise<ToolResult> {
  const held: ToolResult = {
    stdout: '',
    stderr: '',
    exitCode: null,
    isError: false,
    taskId: null,
    taskStatus: null,
    executionTime: null,
    content: [],
  }
  let results = 0
  let textSize = 0
  let isStructured = false
  const isWhole = (): boolean => held.exitCode !== null || held.taskId !== null
  for await (const { result } of endingAfter(stream, isWhole)) {
    if (result === undefined) continue
    results += 1
    const { stdout, stderr } = held
    isStructured = add(held, result) || isStructured
    textSize += textOf(result.content).length
    // Counts the text that is kept, because a growing result is sent again and again.
    if (textSize + held.stdout.length + held.stderr.length > ANSWER_MAX)
      throw new CofferdamError('protocol_violation', 'AgentCore: an answer that does not end.')
    if (onText === undefined) continue
    if (result.structuredContent === undefined) await onText('text', textOf(result.content))
    await onText('stdout', held.stdout.slice(stdout.length))
    await onText('stderr', held.stderr.slice(stderr.length))
  }
  if (results === 0)
    throw new CofferdamError('sandbox_lost', 'AgentCore: the stream ended without a result.', {
      details: { reason: 'empty_stream' },
    })
  if (isStructured) return held
  const text = textOf(held.content)
  return { ...held, exitCode: held.isError ? 1 : 0, [held.isError ? 'stderr' : 'stdout']: text }
}

/**
 * Yields the events of `stream`. Ends with it, or after a pause if `isWhole` says that nothing is missing.
 */
async function* endingAfter<T>(stream: AsyncIterable<T>, isWhole: () => boolean): AsyncGenerator<T> {
  const events = stream[Symbol.asyncIterator]()
  const late = new Error('nothing follows')
  for (;;) {
    const next = events.next()
    try {
      const event = await (isWhole() ? inTime(next, DRAIN_MS, () => late) : next)
      if (event.done === true) return
      yield event.value
    } catch (error) {
      if (error !== late) throw error
      return
    }
  }
}

/** Adds an event to `held`. Returns true if the event has structured content. */
function add(held: ToolResult, result: CodeInterpreterResult): boolean {
  held.content.push(...(result.content ?? []))
  held.isError = result.isError ?? held.isError
  const { structuredContent: part } = result
  if (part === undefined) return false
  held.stdout = grown(held.stdout, part.stdout ?? '')
  held.stderr = grown(held.stderr, part.stderr ?? '')
  held.exitCode = part.exitCode ?? held.exitCode
  held.taskId = part.taskId ?? held.taskId
  held.taskStatus = part.taskStatus ?? held.taskStatus
  held.executionTime = part.executionTime ?? held.executionTime
  return true
}

const textOf = (content: readonly ContentBlock[] = []): string =>
  content.map((block) => block.text ?? '').join('')

const grown = (held: string, part: string): string => (part.startsWith(held) ? part : held + part)
