/** Progress of a call, and calls that are answered with a task. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { callTool, connectMcp, ERAS, openReplicas, post } from './mcp-client.ts'
import type { Scene } from './scene.ts'

let scene: Scene
let url: string
let otherUrl: string

beforeAll(async () => {
  ;({ scene, url, otherUrl } = await openReplicas())
})
afterAll(() => scene[Symbol.asyncDispose]())

const waiting = { language: 'python', source: 'wait' }

describe.each(ERAS)('progress for a client of revision %s', (era) => {
  it('rises, and says where the program runs and what it prints', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const stop = new AbortController()
    const seen: { progress: number; message?: string }[] = []
    const call = callTool(client, 'run_code', waiting, {
      signal: stop.signal,
      onprogress: (progress) => seen.push(progress),
    }).catch(() => 'cancelled')
    await vi.waitFor(
      () =>
        expect(seen.map(({ message }) => message)).toEqual(
          expect.arrayContaining(['started on fake (none)', 'wait']),
        ),
      { timeout: 10_000, interval: 20 },
    )
    stop.abort()
    expect(await call).toBe('cancelled')
    expect(seen.every(({ progress }, index) => progress > (seen[index - 1]?.progress ?? 0))).toBe(true)
  })

  it('is not sent to a client that did not ask for it', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const result = await callTool(client, 'run_code', { language: 'python', source: 'hello' })
    expect(result.structuredContent.ok).toBe(true)
  })
})

const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } }

/** Sends a message as a client that supports tasks, unless `capabilities` say otherwise. */
async function ask(
  method: string,
  params: Record<string, unknown>,
  options: { address?: string; headers?: Record<string, string>; capabilities?: object } = {},
): Promise<{ status: number; result?: Record<string, unknown>; error?: { code: number; data?: unknown } }> {
  const { address = url, headers = scene.acme, capabilities = TASKS } = options
  const answer = await post(address, method, params, { headers, capabilities })
  return { status: answer.status, ...((await answer.json()) as object) }
}

const startTask = async (source: string): Promise<string> => {
  const args = { language: 'python', source, wait_s: 0 }
  const { result } = await ask('tools/call', { name: 'run_code', arguments: args })
  expect(result).toMatchObject({ resultType: 'task', status: 'working', ttlMs: null })
  return String(result?.['taskId'])
}

describe('a client that takes tasks', () => {
  it('is told that the server has them', async () => {
    const { result } = await ask('server/discover', {})
    expect(result?.['capabilities']).toMatchObject(TASKS)
  })

  it('gets the answer itself when the execution ends soon', async () => {
    const args = { language: 'python', source: 'hello' }
    const { result } = await ask('tools/call', { name: 'run_code', arguments: args })
    expect(result).toMatchObject({ resultType: 'complete', structuredContent: { ok: true } })
  })

  it('gets a task that every replica knows, cancels it, and may do so again', async () => {
    const taskId = await startTask('wait')
    const known = await ask('tasks/get', { taskId }, { address: otherUrl })
    expect(known.result).toMatchObject({ resultType: 'complete', taskId, status: 'working' })
    expect(known.result?.['statusMessage']).toContain('Not ended yet')
    for (const turn of [1, 2]) {
      const { result } = await ask('tasks/cancel', { taskId }, { address: otherUrl })
      expect(result, `turn ${turn}`).toMatchObject({ resultType: 'complete' })
      expect(result).not.toHaveProperty('taskId')
    }
    await vi.waitFor(
      async () => expect((await ask('tasks/get', { taskId })).result?.['status']).toBe('cancelled'),
      { timeout: 10_000, interval: 50 },
    )
  })

  it('gets the result of a task that completed', async () => {
    const taskId = await startTask('seconds 1')
    const task = await vi.waitFor(
      async () => {
        const { result } = await ask('tasks/get', { taskId })
        expect(result?.['status']).toBe('completed')
        return result
      },
      { timeout: 10_000, interval: 50 },
    )
    const structuredContent = { execution_id: taskId, status: 'ended', ok: true }
    expect(task?.['result']).toMatchObject({ isError: false, structuredContent })
    expect((await ask('tasks/update', { taskId, inputResponses: {} })).result).toMatchObject({})
  })

  it('gets invalid params for a task of another tenant, and for none', async () => {
    const taskId = await startTask('wait')
    for (const method of ['tasks/get', 'tasks/cancel', 'tasks/update']) {
      const stranger = await ask(method, { taskId }, { headers: scene.globex })
      expect(stranger.error?.code, method).toBe(-32_602)
      expect((await ask(method, { taskId: 'nothing' })).error?.code, method).toBe(-32_602)
    }
    await ask('tasks/cancel', { taskId })
  })
})

describe('a client that does not take tasks', () => {
  it('never gets one', async () => {
    const args = { language: 'python', source: 'wait', wait_s: 0 }
    const { result } = await ask('tools/call', { name: 'run_code', arguments: args }, { capabilities: {} })
    expect(result).toMatchObject({
      resultType: 'complete',
      structuredContent: { status: expect.any(String) },
    })
    const { execution_id } = (result?.['structuredContent'] ?? {}) as { execution_id?: string }
    await ask('tools/call', { name: 'cancel_execution', arguments: { execution_id } }, { capabilities: {} })
  })

  it('is told which capability it lacks', async () => {
    const { status, error } = await ask('tasks/get', { taskId: 'any' }, { capabilities: {} })
    expect([status, error?.code, error?.data]).toEqual([400, -32_021, { requiredCapabilities: TASKS }])
  })
})
