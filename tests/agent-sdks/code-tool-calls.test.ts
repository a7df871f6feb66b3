/** Calls of @cofferdam/tools that are cancelled, repeated, streamed and traced, against a real fleet. */
import { context, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import type { ExecutionEvent, ExecutionId } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import { textForModel, type CodeToolOptions } from '@cofferdam/tools'
import { afterAll, beforeAll, expect, vi } from 'vitest'
import { openToolScene, python, type ToolScene } from './tool-scene.ts'

const onProcess = needs('process')
let scene: ToolScene
beforeAll(async () => {
  scene = await openToolScene()
})
afterAll(async () => scene?.[Symbol.asyncDispose]())

const SLEEPS = python('import time\nprint("begun", flush=True)\ntime.sleep(25)')

onProcess.it('tells a full queue as a refusal', async () => {
  await scene.admin.tenants.changeCaps('full', { max_queued: 0, concurrency: 1 })
  const giveUp = new AbortController()
  const started = Promise.withResolvers<void>()
  const onEvent = ({ type }: ExecutionEvent): void => {
    if (type === 'started') started.resolve()
  }
  const running = scene.toolOf('full').run(SLEEPS, { signal: giveUp.signal, onEvent })
  await started.promise
  const full = await scene.toolOf('full').run(python('1'))
  giveUp.abort()
  expect(full).toMatchObject({ status: 'refused', problem: { code: 'queue_full', retry: 'later' } })
  expect(textForModel(full)).toMatch(
    /^Refused: queue_full\. Nothing ran\.\n.*(Do not repeat the call before \S+Z|later)/,
  )
  expect((await running).status).toBe('cancelled')
})

onProcess.it('cancels the execution when the signal aborts, and starts none after that', async () => {
  const giveUp = new AbortController()
  const events: ExecutionEvent[] = []
  const running = scene.toolOf('acme').run(SLEEPS, {
    signal: giveUp.signal,
    onEvent: (event) => events.push(event),
  })
  await vi.waitFor(() => expect(events.map(({ type }) => type)).toContain('output'), 20_000)
  giveUp.abort()
  const result = await running
  expect(result.status).toBe('cancelled')
  expect(await scene.client('acme').wait(result.execution_id as ExecutionId)).toMatchObject({
    ending: 'cancelled',
  })
  const late = await scene.toolOf('acme').run(SLEEPS, { signal: giveUp.signal })
  expect(late).toMatchObject({ status: 'cancelled' })
  expect(late.execution_id).toBeUndefined()
})

onProcess.it('cancels what the API accepts only after the call was given up', async () => {
  const giveUp = new AbortController()
  const client = scene.client('acme')
  const accepted = Promise.withResolvers<ExecutionId>()
  const slow: CodeToolOptions['client'] = {
    ...client,
    async enqueue(request) {
      giveUp.abort()
      const answer = await client.enqueue(request)
      accepted.resolve(answer.execution_id)
      return answer
    },
  }
  const result = await scene.toolOf('acme', { client: slow }).run(SLEEPS, { signal: giveUp.signal })
  expect(result.status).toBe('cancelled')
  expect(await client.wait(await accepted.promise)).toMatchObject({ ending: 'cancelled' })
})

onProcess.it('runs a repeated call once, and another program under its ID anew', async () => {
  const tool = scene.toolOf('acme')
  const source = python('import uuid\nprint(uuid.uuid4())')
  const call = { toolCallId: 'call_9rT4kQ2mZx', mayRepeat: true }
  const [first, second] = await Promise.all([tool.run(source, call), tool.run(source, call)])
  expect(second).toMatchObject({ execution_id: first.execution_id, stdout: first.stdout })
  const other = await tool.run(python('print(1)'), call)
  expect(other.execution_id).not.toBe(first.execution_id)
  const { toolCallId } = call
  const anew = await tool.run(source, { toolCallId })
  expect(anew.stdout).not.toBe(first.stdout)
  const rows = scene.client('acme').audit.list({ tenant_id: 'acme', limit: 100 })
  const calls: (string | null)[] = []
  for await (const row of rows) if (row.execution_id === first.execution_id) calls.push(row.tool_call_id)
  expect(calls).toEqual([toolCallId])
})

onProcess.it('lets an execution go on that takes longer than the wait', async () => {
  const result = await scene
    .toolOf('acme', { waitMs: 300 })
    .run(python('import time\ntime.sleep(2)\nprint(1)'))
  expect(result.status).toBe('running')
  expect(textForModel(result)).toContain(result.execution_id)
  expect(await scene.client('acme').wait(result.execution_id as ExecutionId)).toMatchObject({
    ok: true,
    stdout: '1\n',
  })
})

onProcess.it('streams what the program printed so far, then the result', async () => {
  const source = 'import time\nfor n in range(5):\n    print(n, flush=True)\n    time.sleep(0.3)'
  const seen: string[] = []
  const statuses: string[] = []
  for await (const { status, stdout } of scene.toolOf('acme').stream(python(source))) {
    seen.push(stdout)
    statuses.push(status)
  }
  expect(statuses.at(-1)).toBe('ended')
  expect(new Set(statuses.slice(0, -1))).toEqual(new Set(['running']))
  expect(seen.at(-1)).toBe('0\n1\n2\n3\n4\n')
  for (const [at, text] of seen.entries()) expect(seen.at(-1)?.startsWith(text), String(at)).toBe(true)
  expect(new Set(seen).size).toBeGreaterThan(2)
})

onProcess.it('cancels the execution when the consumer of a stream stops early', async () => {
  let id: ExecutionId | undefined
  const client = scene.client('acme')
  const watched: CodeToolOptions['client'] = {
    ...client,
    async enqueue(request) {
      const answer = await client.enqueue(request)
      id = answer.execution_id
      return answer
    },
  }
  for await (const { stdout } of scene.toolOf('acme', { client: watched }).stream(SLEEPS))
    if (stdout !== '') break
  expect(await client.wait(id!)).toMatchObject({ ending: 'cancelled' })
})

onProcess.it('joins the trace that it is given, and that of the active span', async () => {
  const given = await scene.toolOf('acme').run(python('1'), {
    traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  })
  const traceOf = async (id: string | undefined) =>
    (await scene.client('acme').wait(id as ExecutionId))?.trace_id
  expect(await traceOf(given.execution_id)).toBe('4bf92f3577b34da6a3ce929d0e0e4736')
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  try {
    const span = trace.wrapSpanContext({ traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 })
    const active = trace.setSpan(context.active(), span)
    const followed = await context.with(active, () => scene.toolOf('acme').run(python('1')))
    expect(await traceOf(followed.execution_id)).toBe('a'.repeat(32))
  } finally {
    context.disable()
  }
})
