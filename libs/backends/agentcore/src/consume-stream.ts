/**
 * The answer of one tool call, put together from its events. Each event holds the whole result, or a part of it:
 *
 *   stdout, stderr    one that begins with what is held replaces it, any other is its continuation
 *   other fields      the last that is set
 *   text only         joined, where no event has structured content; `isError` then means exit code 1
 *
 * A stream without a single result is a failure: the service ended it before it said how the call went.
 */
import type {
  CodeInterpreterResult,
  CodeInterpreterStreamOutput,
  ContentBlock,
} from '@aws-sdk/client-bedrock-agentcore'
import { CofferdamError, inTime } from '@cofferdam/contract'

/** A call's answer; all of an answer of 100 MB, the service's most, may be in `stdout`. */
export interface ToolResult {
  stdout: string
  stderr: string
  exitCode: number | null
  isError: boolean
  taskId: string | null
  taskStatus: string | null
  /** Whatever the service means by it: seconds where others measured, milliseconds by its documentation. */
  executionTime: number | null
  content: ContentBlock[]
}

/** Where text stood: in an event without structured content, or in a stream of one that has it. */
export type TextSource = 'text' | 'stdout' | 'stderr'
/** Hears text as it arrives; the next event is read when it resolves. Text that came as `text` mostly comes again in a stream. */
export type OnText = (source: TextSource, text: string) => Promise<void>

/** The service's most for an answer (100 MB), which it may send twice: as text and as structured content. */
const ANSWER_MAX = 2 * 100_000_000

/** After a result that says how the call ended: what comes later than this after it is not waited for. */
const DRAIN_MS = 2000

/**
 * Reads the stream to its end, or until nothing follows a result that is whole. Throws what the SDK throws for exception and error frames, `sandbox_lost` for no result,
 * `protocol_violation` for one that does not end, and what `onText` throws.
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
    // What is held, not what came: a result that grows comes again and again.
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

/** The same, but that it ends when nothing comes for a while and `isWhole` says that nothing needs to. */
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

/** True when the event has structured content. */
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
