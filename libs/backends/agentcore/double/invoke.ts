/** InvokeCodeInterpreter: runs one tool call, injects faults, and answers with an event stream. */
import type { ServerResponse } from 'node:http'
import { event, exception, unmodelled } from './event-stream.ts'
import { Failure } from './failure.ts'
import { delayed, httpFailure, type Fault } from './faults.ts'
import { callTool, type Session } from './sessions.ts'
import { faultOf } from '@cofferdam/backend-remote/double'
import { DATA_SHAPES } from './published.ts'

type Arguments = Record<string, unknown>
type Result = Record<string, unknown>

const isText = (value: unknown): boolean => typeof value === 'string' && value.length <= 100_000_000
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.length > 0 && value.every(isText)
const LANGUAGES: readonly unknown[] = ['python', 'javascript', 'typescript']

/** Checks of each tool's arguments. */
const TOOLS: Record<string, (given: Arguments) => boolean> = {
  executeCode: ({ code, language }) =>
    isText(code) && (language === undefined || LANGUAGES.includes(language)),
  executeCommand: ({ command }) => isText(command),
  startCommandExecution: ({ command }) => isText(command),
  getTask: ({ taskId }) => isText(taskId),
  stopTask: ({ taskId }) => isText(taskId),
  readFiles: ({ paths }) => isTexts(paths),
  removeFiles: ({ paths }) => isTexts(paths),
  listFiles: ({ path, directoryPath }) =>
    [path, directoryPath].every((one) => one === undefined || isText(one)),
  writeFiles: ({ content }) => Array.isArray(content) && content.every(isBlock),
}

function isBlock(block: unknown): boolean {
  const { path, text, blob } = (block ?? {}) as Arguments
  return isText(path) && (isText(text) || isText(blob))
}

/** Checks and returns the tool and its arguments. Throws ValidationException. */
export function toolCall(body: Arguments): { name: string; arguments: Arguments } {
  const { name, arguments: given = {} } = body
  const fits = typeof name === 'string' && Object.hasOwn(TOOLS, name) ? TOOLS[name] : undefined
  if (fits === undefined)
    throw new Failure('ValidationException', 'Unknown tool name', 'FieldValidationFailed')
  if (typeof given !== 'object' || given === null || !fits(given as Arguments))
    throw new Failure('ValidationException', `Invalid arguments of ${String(name)}`, 'FieldValidationFailed')
  return { name: String(name), arguments: given as Arguments }
}

/**
 * Runs the call after the session's earlier calls. Throws a Failure only while the answer has not begun.
 * Afterwards an error is sent as a frame.
 */
export async function invoke(
  session: Session,
  call: { name: string; arguments: Arguments },
  { fault, previews, response }: { fault: Fault | null; previews: boolean; response: ServerResponse },
): Promise<void> {
  if (fault?.kind === 'delay') await delayed(fault)
  if (fault?.kind === 'http') throw httpFailure(fault)
  if (fault?.kind === 'cut-before') return void response.destroy()
  const stream = createStream(response, session.id)
  const isFrame = fault?.kind === 'exception' || fault?.kind === 'error-frame'
  if (isFrame && (fault.after ?? 0) === 0 && fault.runs !== true) return stream.end(frameOf(fault))
  const isOther = fault?.kind === 'result'
  if (isOther && fault.runs !== true) return stream.end(event(fault.result ?? {}))
  const onText = previews ? (text: string) => stream.write(event(preview(text))) : null
  const ran = session.turn(async () => await callTool(session, call, onText))
  ran.catch(() => undefined)
  const result = await Promise.race([ran, session.over])
  if (typeof result === 'string') return stream.refuse(endOf(session, result))
  const wrong = faultOf(DATA_SHAPES.CodeInterpreterResult, result)
  if (wrong !== null) throw new Error(`the double of AgentCore is not as published: ${call.name}: ${wrong}`)
  if (fault?.kind === 'cut-after') return void response.destroy()
  if (fault?.kind === 'empty') return stream.end()
  if (isOther) return stream.end(event(fault.result ?? {}))
  if (isFrame) {
    for (let n = 0; n < (fault.after ?? 0); n += 1) stream.write(event(preview(`part ${n}`)))
    return stream.end(frameOf(fault))
  }
  const frames = framesOf(result, fault)
  if (fault?.kind === 'truncated') frames.push((frames.pop() ?? Buffer.alloc(0)).subarray(0, -7))
  if (fault?.kind === 'endless') for (const frame of frames) stream.write(frame)
  else stream.end(...frames)
}

const preview = (text: string): object => ({ content: [{ type: 'text', text }] })

const frameOf = ({ kind, error = 'internalServerException', message = 'on purpose' }: Fault): Buffer =>
  kind === 'exception' ? exception(error, message) : unmodelled(error, message)

/** The error for a call whose session ends while it runs, or has ended before. */
export function endOf(session: Session, how: 'stopped' | 'expired'): Failure {
  return how === 'expired'
    ? new Failure(
        'ConflictException',
        `Session ${session.id} exceeded its session timeout of ${session.timeoutSeconds} seconds`,
      )
    : new Failure('ResourceNotFoundException', `Code interpreter session ${session.id} not found`)
}

function framesOf(result: Result, fault: Fault | null): Buffer[] {
  const structured = result['structuredContent'] as { stdout?: string; exitCode?: number } | undefined
  const of = (change: object): Buffer => event({ ...result, structuredContent: { ...structured, ...change } })
  const stdout = structured?.stdout ?? ''
  const half = Math.floor(stdout.length / 2)
  switch (fault?.kind) {
    case 'duplicate':
      return [event(result), event(result)]
    case 'growing':
      return [of({ stdout: stdout.slice(0, half), exitCode: undefined }), event(result)]
    case 'split':
      return [of({ stdout: stdout.slice(0, half), exitCode: undefined }), of({ stdout: stdout.slice(half) })]
    case 'cut-text':
      return [of({ stdout: stdout.slice(0, -7) })]
    case 'no-exit-code':
      return [of({ exitCode: undefined })]
    case 'unknown-event':
      return [event({ anything: 1 }, 'somethingNew'), event(result)]
    default:
      return [event(result)]
  }
}

/** Sends headers with the first frame, like the service. Earlier errors have their own HTTP status. */
function createStream(response: ServerResponse, sessionId: string) {
  const begin = (): void => {
    if (response.headersSent) return
    response.writeHead(200, {
      'Content-Type': 'application/vnd.amazon.eventstream',
      'x-amzn-code-interpreter-session-id': sessionId,
    })
    response.flushHeaders()
  }
  const write = (frame: Buffer): void => {
    begin()
    response.write(frame)
  }
  const end = (...frames: Buffer[]): void => {
    begin()
    for (const frame of frames) response.write(frame)
    response.end()
  }
  return {
    write,
    end,
    refuse(failure: Failure): void {
      if (!response.headersSent) throw failure
      end(exception(failure.type[0]?.toLowerCase() + failure.type.slice(1), failure.message))
    },
  }
}
