/**
 * One call of the tool.
 *
 *   input → parsed → accepted → events … → ended → images, end of the output → result
 *     │                   ├─► not ended within the wait ─► it goes on, and the result names it
 *     │                   └─► the SDK gives up ─► cancelled
 *     └─► not valid, refused, or a failure ─► a result that says so
 */
import { isCofferdamError, type ExecutionRequest, type ExecutionResult } from '@cofferdam/client'
import { idempotencyKey, toolCallName, sessionKey } from './call-ids.ts'
import { issuesText, parseInput, type CodeInput } from './code-input.ts'
import { emptyResult, type CodeResult } from './code-result.ts'
import type { Images } from './images.ts'
import type { Settings, SessionOption } from './options.ts'
import { endedResult, failedResult } from './outcome.ts'
import type { ToolCall } from './tool-call.ts'

/** Given to the audit row of an execution that an SDK gave up. */
const GIVEN_UP = 'The agent gave up the tool call.'
/** How long a call that was given up waits for the API to confirm the cancellation, in milliseconds. */
const CANCEL_MS = 5000
/** End of a long output that is fetched in addition to its head, bytes. */
const TAIL_BYTES = 6 * 1024
/** The API keeps this much of an output. */
const KEPT_BYTES = 16 * 1024 * 1024

type Id = ExecutionResult['execution_id']

const isAborted = ({ signal }: ToolCall): boolean => signal?.aborted === true

/** Never throws: every failure is a result. */
export async function runCode(
  settings: Settings,
  images: Images,
  input: unknown,
  call: ToolCall,
): Promise<CodeResult> {
  const namesSessions = typeof settings.session === 'object' && 'prefix' in settings.session
  const parsed = parseInput(input, { languages: settings.languages, namesSessions })
  if ('issues' in parsed) {
    const message = `The input is not valid: ${issuesText(parsed.issues)}`
    return emptyResult('refused', { problem: { code: 'invalid_input', message, retry: 'never' } })
  }
  if (isAborted(call)) return emptyResult('cancelled')
  let id: Id | undefined
  try {
    const key = await keyFor(settings.session, parsed.value, call)
    const request = await requestOf(settings, parsed.value, key, call)
    id = await accept(settings, request, call.signal)
    if (id === undefined) return emptyResult('cancelled')
    const result = await follow(settings, id, call)
    if (result === null) return emptyResult('running', { execution_id: id })
    const shown = await images.fetch(result, key, call.signal)
    return endedResult(result, { images: shown, stdoutTail: await tailOf(settings, result) })
  } catch (error) {
    if (isAborted(call) && id !== undefined) {
      await cancel(settings, id)
      return emptyResult('cancelled', { execution_id: id })
    }
    settings.onProblem(error)
    return failedResult(error, id)
  }
}

/** The request of the API for one call. */
async function requestOf(
  settings: Settings,
  { language, source, files }: CodeInput,
  key: string | undefined,
  { toolCallId, traceparent, mayRepeat }: ToolCall,
): Promise<ExecutionRequest> {
  const { request: more = {}, userId, runId, templateId, backend } = settings
  const own = new Set(files?.map(({ path }) => path))
  const allFiles = [...(more.files ?? []).filter(({ path }) => !own.has(path)), ...(files ?? [])]
  const session = sessionOf(settings.session, key)
  const callId = toolCallName(toolCallId)
  const request: ExecutionRequest = {
    invocation_source: 'chat',
    artifacts: [...settings.artifacts],
    network: settings.network,
    ...more,
    limits: { ...more.limits, ...settings.limits },
    tenant_id: settings.tenantId,
    agent_id: settings.agentId,
    program: { type: 'script', language, source },
    ...(allFiles.length === 0 ? {} : { files: allFiles }),
    ...(userId === undefined ? {} : { user_id: userId }),
    ...(runId === undefined ? {} : { run_id: runId }),
    ...(templateId === undefined ? {} : { template_id: templateId }),
    ...(backend === undefined ? {} : { backend }),
    ...(session === undefined ? {} : { session }),
    ...(callId === undefined ? {} : { tool_call_id: callId }),
  }
  const repeated = mayRepeat === true ? await idempotencyKey(toolCallId, request) : undefined
  return {
    ...request,
    // Added after the key is computed from the request, because a repeated call has another span.
    ...(traceparent === undefined ? {} : { traceparent }),
    idempotency_key: repeated ?? crypto.randomUUID(),
  }
}

/**
 * Enqueues the execution. Returns undefined if the call was given up before the API answered. If the API then
 * still accepts the execution, it is cancelled. The signal does not end the request itself, because then
 * nobody would know the execution's ID.
 */
async function accept(
  settings: Settings,
  request: ExecutionRequest,
  signal: AbortSignal | undefined,
): Promise<Id | undefined> {
  const accepting = settings.client.enqueue(request)
  let giveUp = (): void => undefined
  const givenUp = new Promise<null>((resolve) => (giveUp = () => resolve(null)))
  signal?.addEventListener('abort', giveUp)
  try {
    const accepted = await Promise.race([accepting, givenUp])
    if (accepted !== null) return accepted.execution_id
    accepting.then(
      async ({ execution_id }) => cancel(settings, execution_id),
      (error: unknown) => settings.onProblem(error),
    )
    return undefined
  } finally {
    signal?.removeEventListener('abort', giveUp)
  }
}

/** Passes on events if somebody wants them, then gets the result. Null if it did not end within the wait. */
async function follow(settings: Settings, id: Id, call: ToolCall): Promise<ExecutionResult | null> {
  const { client, waitMs } = settings
  const deadline = performance.now() + waitMs
  if (call.onEvent !== undefined) await passEvents(settings, id, call, call.onEvent)
  const timeoutMs = Math.max(0, deadline - performance.now())
  return client.wait(id, { timeoutMs, ...(call.signal === undefined ? {} : { signal: call.signal }) })
}

/** Ends at the last event, the end of the wait, or the abort. A failed stream does not fail the call. */
async function passEvents(
  { client, waitMs, onProblem }: Settings,
  id: Id,
  { signal }: ToolCall,
  onEvent: NonNullable<ToolCall['onEvent']>,
): Promise<void> {
  const following = new AbortController()
  const stop = (): void => following.abort()
  const timer = setTimeout(stop, waitMs)
  signal?.addEventListener('abort', stop)
  if (signal?.aborted === true) stop()
  try {
    for await (const { event } of client.stream(id, { signal: following.signal })) onEvent(event)
  } catch (error) {
    onProblem(error)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
  }
}

/** Cancels, and waits a bounded time for the answer. A failure only reaches the log. */
async function cancel({ client, onProblem }: Settings, id: Id): Promise<void> {
  try {
    await client.cancel(id, GIVEN_UP, { signal: AbortSignal.timeout(CANCEL_MS) })
  } catch (error) {
    onProblem(error)
  }
}

/**
 * The end of the standard output, if the result has only its head and the API keeps all of it. Empty
 * otherwise.
 */
async function tailOf({ client, onProblem }: Settings, result: ExecutionResult): Promise<string> {
  const { stdout_truncated, stdout_bytes, execution_id, stdout } = result
  if (!stdout_truncated || stdout_bytes > KEPT_BYTES) return ''
  const head = new TextEncoder().encode(stdout).length
  const first = Math.max(head, stdout_bytes - TAIL_BYTES)
  try {
    const text = await client.executions.output(execution_id, 'stdout', { range: { first } })
    // A range may begin within a character.
    return text.replace(/^\ufffd+/, '').slice(-TAIL_BYTES)
  } catch (error) {
    // Redaction can make the kept output shorter than what the program wrote. The range then starts after its
    // end.
    if (!isCofferdamError(error) || error.code !== 'range_not_satisfiable') onProblem(error)
    return ''
  }
}

/** The key of the call's session. Undefined for a call that starts from nothing. */
async function keyFor(
  option: SessionOption | undefined,
  { session: named }: CodeInput,
  call: ToolCall,
): Promise<string | undefined> {
  if (option === undefined) return undefined
  if (typeof option === 'function') return sessionKey(option(call))
  if (typeof option === 'string') return sessionKey(option)
  if ('key' in option) return sessionKey(option.key)
  return named === undefined ? undefined : sessionKey(`${option.prefix}.${named}`)
}

/** The `session` field of the request. */
function sessionOf(option: SessionOption | undefined, key: string | undefined): ExecutionRequest['session'] {
  if (key === undefined) return undefined
  const scope = typeof option === 'object' ? option.scope : undefined
  return { key, scope: scope ?? 'interpreter' }
}
