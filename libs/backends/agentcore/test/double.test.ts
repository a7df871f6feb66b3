/** Tests AgentCore's double with the vendor's unmodified client. */
import { randomBytes } from 'node:crypto'
import {
  BedrockAgentCoreClient,
  GetCodeInterpreterSessionCommand,
  InvokeCodeInterpreterCommand,
  ListCodeInterpreterSessionsCommand,
  StartCodeInterpreterSessionCommand,
  StopCodeInterpreterSessionCommand,
  type CodeInterpreterResult,
  type ToolArguments,
  type ToolName,
} from '@aws-sdk/client-bedrock-agentcore'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { EXAMPLE_SECRETS, startAgentcoreDouble, type AgentcoreDouble } from '../double/agentcore-double.ts'

const INTERPRETER = 'aws.codeinterpreter.v1'

needs('bwrap').describe('AgentCore’s double', () => {
  let double: AgentcoreDouble
  let client: BedrockAgentCoreClient
  /** Sends no call twice, like a careful caller. */
  let once: BedrockAgentCoreClient

  const make = (change: object = {}): BedrockAgentCoreClient =>
    new BedrockAgentCoreClient({
      region: 'eu-central-1',
      endpoint: double.origin,
      credentials: EXAMPLE_SECRETS,
      ...change,
    })

  beforeAll(async () => {
    double = await startAgentcoreDouble({ ratePerSecond: 1000 })
    client = make()
    once = make({ maxAttempts: 1 })
  })
  afterEach(async () => {
    expect(double.faultsLeft, 'faults that nothing met').toEqual([])
    await double.sessions.close()
  })
  afterAll(async () => {
    client.destroy()
    once.destroy()
    await double[Symbol.asyncDispose]()
  })

  async function start(input: object = {}, by = client): Promise<string> {
    const command = new StartCodeInterpreterSessionCommand({
      codeInterpreterIdentifier: INTERPRETER,
      ...input,
    })
    return (await by.send(command)).sessionId ?? ''
  }

  async function events(
    sessionId: string,
    name: ToolName,
    given: ToolArguments,
    {
      by = once,
      signal,
      interpreter = INTERPRETER,
    }: { by?: BedrockAgentCoreClient; signal?: AbortSignal; interpreter?: string } = {},
  ): Promise<CodeInterpreterResult[]> {
    const answer = await by.send(
      new InvokeCodeInterpreterCommand({
        codeInterpreterIdentifier: interpreter,
        sessionId,
        name,
        arguments: given,
      }),
      signal === undefined ? {} : { abortSignal: signal },
    )
    const found: CodeInterpreterResult[] = []
    for await (const event of answer.stream ?? []) if (event.result !== undefined) found.push(event.result)
    return found
  }

  const python = async (sessionId: string, code: string): Promise<CodeInterpreterResult | undefined> =>
    (await events(sessionId, 'executeCode', { code, language: 'python' })).at(-1)
  const command = async (sessionId: string, text: string): Promise<CodeInterpreterResult | undefined> =>
    (await events(sessionId, 'executeCommand', { command: text })).at(-1)

  it('runs cells in one Python process that keeps its variables, and answers like the service', async () => {
    const id = await start({ name: 'a name', sessionTimeoutSeconds: 600 })
    expect(id).toMatch(/^[0-9A-Z]{26}$/)
    expect(await python(id, 'x = 41\nprint("set")')).toMatchObject({
      isError: false,
      content: [{ type: 'text', text: 'set' }],
      structuredContent: { stdout: 'set', stderr: '', exitCode: 0 },
    })
    expect((await python(id, 'print(x + 1)'))?.structuredContent?.stdout).toBe('42')
    const failed = await python(id, 'print("before")\nraise ValueError("no")')
    expect(failed).toMatchObject({ isError: true, structuredContent: { stdout: 'before', exitCode: 1 } })
    expect(failed?.structuredContent?.stderr).toContain('ValueError: no')
    const timed = await python(id, 'import time; time.sleep(0.3)')
    // In seconds, although the SDK's documentation says milliseconds.
    expect(timed?.structuredContent?.executionTime).toBeGreaterThan(0.25)
    expect(timed?.structuredContent?.executionTime).toBeLessThan(30)
  })

  it('captures output of child processes and os.write, and survives the kernel’s death', async () => {
    const id = await start()
    const ran = await python(
      id,
      'import os, subprocess\nos.write(1, b"raw ")\nsubprocess.run(["echo", "child"])',
    )
    expect(ran?.structuredContent?.stdout).toBe('raw child')
    const died = await python(
      id,
      'print("last", flush=True)\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)',
    )
    expect(died).toMatchObject({ isError: true, structuredContent: { exitCode: 137, stdout: 'last' } })
    expect((await python(id, 'print("os" in globals())'))?.structuredContent?.stdout).toBe('False')
  })

  it('runs commands as on a terminal: with CR LF, and with all output on stderr if they fail', async () => {
    const id = await start()
    expect((await command(id, 'echo a; echo b'))?.structuredContent).toMatchObject({
      stdout: 'a\r\nb',
      exitCode: 0,
    })
    expect(await command(id, 'echo out; exit 3')).toMatchObject({
      isError: true,
      structuredContent: { stdout: '', stderr: 'out', exitCode: 3 },
    })
    expect((await command(id, 'timeout -k 1 0.2 sleep 9'))?.structuredContent?.exitCode).toBe(124)
    const script = await events(id, 'executeCode', { code: 'console.log(6 * 7)', language: 'javascript' })
    expect(script.at(-1)?.structuredContent?.stdout).toBe('42')
  })

  it('writes and reads 4,096 random bytes, and lists and removes files', async () => {
    const id = await start()
    const blob = randomBytes(4096)
    const written = await events(id, 'writeFiles', {
      content: [
        { path: 'd/b.bin', blob },
        { path: 't.txt', text: 'text' },
      ],
    })
    expect(written).toMatchObject([{ content: [{ type: 'text', text: 'Successfully wrote all 2 files' }] }])
    const [read] = await events(id, 'readFiles', { paths: ['d/b.bin', 't.txt'] })
    expect(Buffer.from(read?.content?.[0]?.resource?.blob ?? []).equals(blob)).toBe(true)
    expect(read?.content?.[1]?.resource).toMatchObject({ uri: 'file:///t.txt', text: 'text' })
    const [listed] = await events(id, 'listFiles', { directoryPath: '.' })
    expect(listed?.content).toMatchObject([
      { type: 'resource_link', name: 'd', description: 'Directory' },
      { type: 'resource_link', name: 't.txt', description: 'File' },
    ])
    await events(id, 'removeFiles', { paths: ['t.txt'] })
    expect(await events(id, 'readFiles', { paths: ['t.txt'] })).toMatchObject([{ isError: true }])
    expect(await events(id, 'writeFiles', { content: [{ path: '/abs', text: 'x' }] })).toMatchObject([
      { isError: true },
    ])
  })

  it('runs commands in the background, and really stops them', async () => {
    const id = await start()
    const task = async (name: ToolName, given: ToolArguments) =>
      (await events(id, name, given)).at(-1)?.structuredContent
    const begun = await task('startCommandExecution', {
      command: 'echo $$ > pid; sleep 60; echo late > effect',
    })
    expect(begun).toMatchObject({ taskStatus: 'submitted', stdout: '', stderr: '' })
    const taskId = begun?.taskId ?? ''
    expect(await task('getTask', { taskId })).toMatchObject({ taskStatus: 'working' })
    expect(await task('stopTask', { taskId })).toMatchObject({ taskStatus: 'canceled' })
    expect((await command(id, 'kill -0 $(cat pid) || echo gone; ls'))?.structuredContent?.stdout).toMatch(
      /gone\r\npid$/,
    )
    expect(await events(id, 'stopTask', { taskId })).toMatchObject([{ isError: true }])
    const short = (await task('startCommandExecution', { command: 'echo done' }))?.taskId ?? ''
    await expect
      .poll(async () => await task('getTask', { taskId: short }), { timeout: 20_000 })
      .toMatchObject({ taskStatus: 'completed', stdout: 'done', exitCode: 0 })
  })

  it('lists sessions with state and name, and accepts an ARN', async () => {
    const arn = 'arn:aws:bedrock-agentcore:eu-central-1:123456789012:code-interpreter-custom/mine-0123456789'
    const id = await start({ codeInterpreterIdentifier: arn, name: 'by arn' })
    const asked = { codeInterpreterIdentifier: arn, sessionId: id }
    expect(await client.send(new GetCodeInterpreterSessionCommand(asked))).toMatchObject({
      codeInterpreterIdentifier: arn,
      name: 'by arn',
      status: 'READY',
      sessionTimeoutSeconds: 900,
    })
    const ran = await events(
      id,
      'executeCode',
      { code: 'print(1)', language: 'python' },
      { interpreter: arn },
    )
    expect(ran.at(-1)?.structuredContent?.stdout).toBe('1')
    await client.send(new StopCodeInterpreterSessionCommand(asked))
    expect((await client.send(new GetCodeInterpreterSessionCommand(asked))).status).toBe('TERMINATED')
    const list = async (status: 'READY' | 'TERMINATED') =>
      (await client.send(new ListCodeInterpreterSessionsCommand({ codeInterpreterIdentifier: arn, status })))
        .items
    expect(await list('READY')).toEqual([])
    expect(await list('TERMINATED')).toMatchObject([{ sessionId: id, name: 'by arn' }])
    await expect(client.send(new StopCodeInterpreterSessionCommand(asked))).rejects.toMatchObject({
      name: 'ResourceNotFoundException',
    })
  })

  it('starts one session per client token, and refuses the token with other parameters', async () => {
    const clientToken = 'a'.repeat(40)
    const first = await start({ clientToken, name: 'n' })
    expect(await start({ clientToken, name: 'n' })).toBe(first)
    await expect(start({ clientToken, name: 'other' })).rejects.toMatchObject({
      name: 'ValidationException',
      reason: 'IdempotentParameterMismatchException',
    })
    expect(double.sessions.running()).toHaveLength(1)
  })

  it.each([
    ['AccessDeniedException', 403, 1],
    ['ConflictException', 409, 1],
    ['InternalServerException', 500, 3],
    ['ResourceNotFoundException', 404, 1],
    ['ServiceQuotaExceededException', 402, 1],
    ['ThrottlingException', 429, 3],
    ['ValidationException', 400, 1],
  ])('answers %s with status %i, which the SDK tries %i times', async (error, status, attempts) => {
    double.fault({ operation: 'StartCodeInterpreterSession', kind: 'http', error, times: attempts })
    const refused = await start().catch((caught: unknown) => caught)
    expect(refused).toMatchObject({ name: error, $metadata: { httpStatusCode: status, attempts } })
  })

  it('refuses calls above the rate and sessions above the quota', async () => {
    double.ratePerSecond = 1
    const calls = await Promise.allSettled([start({}, once), start({}, once), start({}, once)])
    double.ratePerSecond = 1000
    expect(calls.filter(({ status }) => status === 'rejected').length).toBeGreaterThan(0)
    await double.sessions.close()
    double.sessions.quota = 1
    await start()
    await expect(start()).rejects.toMatchObject({ name: 'ServiceQuotaExceededException' })
    double.sessions.quota = 1000
  })

  it('is called again by the SDK if the first frame throttles, never after an event', async () => {
    const id = await start()
    double.fault({ operation: 'InvokeCodeInterpreter', kind: 'exception', error: 'throttlingException' })
    const ran = await events(id, 'executeCode', { code: 'print(1)', language: 'python' }, { by: client })
    expect(ran.at(-1)?.structuredContent?.stdout).toBe('1')
    const before = double.calls.length
    double.fault({
      operation: 'InvokeCodeInterpreter',
      kind: 'exception',
      error: 'internalServerException',
      after: 1,
    })
    const broken = events(id, 'executeCode', { code: 'print(2)', language: 'python' }, { by: client })
    await expect(broken).rejects.toMatchObject({ name: 'InternalServerException' })
    expect(double.calls.length - before).toBe(1)
  })

  it('produces every way in which a stream can fail', async () => {
    const id = await start()
    const code = { code: 'print("a" * 10)', language: 'python' } as const
    const broken = async (fault: object): Promise<unknown> => {
      double.fault({ operation: 'InvokeCodeInterpreter', kind: 'empty', ...fault })
      return await events(id, 'executeCode', code).catch((error: unknown) => error)
    }
    expect(await broken({})).toEqual([])
    expect(String(await broken({ kind: 'truncated' }))).toContain('Truncated event message')
    expect(await broken({ kind: 'cut-after' })).toMatchObject({ code: 'ECONNRESET' })
    expect(await broken({ kind: 'error-frame', error: 'SomethingElse', after: 1 })).toMatchObject({
      name: 'SomethingElse',
    })
    expect(await broken({ kind: 'exception', error: 'brandNewException' })).toMatchObject({
      name: 'brandNewException',
    })
    const stdouts = async (kind: string) =>
      ((await broken({ kind })) as CodeInterpreterResult[]).map(
        ({ structuredContent }) => structuredContent?.stdout,
      )
    expect(await stdouts('duplicate')).toEqual(['a'.repeat(10), 'a'.repeat(10)])
    expect(await stdouts('growing')).toEqual(['aaaaa', 'a'.repeat(10)])
    expect(await stdouts('split')).toEqual(['aaaaa', 'aaaaa'])
    expect(await stdouts('unknown-event')).toEqual(['a'.repeat(10)])
  })

  it('runs a program twice for a client that repeats calls, and once for one that does not', async () => {
    for (const [by, marks] of [
      [client, 'xx'],
      [once, 'x'],
    ] as const) {
      const id = await start()
      double.fault({ operation: 'InvokeCodeInterpreter', kind: 'cut-after' })
      const code = { code: 'open("effect", "a").write("x")', language: 'python' } as const
      await events(id, 'executeCode', code, { by }).catch(() => undefined)
      expect((await command(id, 'cat effect'))?.structuredContent?.stdout).toBe(marks)
    }
  })

  it('ends a session on time: the running call gets 409, later calls get 404', async () => {
    const id = await start({ sessionTimeoutSeconds: 3 })
    const late = python(id, 'import time; time.sleep(60)')
    await expect(late).rejects.toMatchObject({
      name: 'ConflictException',
      message: expect.stringContaining('session timeout of 3 seconds') as string,
    })
    await expect(python(id, '1')).rejects.toMatchObject({ name: 'ResourceNotFoundException' })
  })

  it('ends a session’s program when the session is stopped', async () => {
    const id = await start()
    const running = python(id, 'import time; time.sleep(60)')
    const ended = expect(running).rejects.toMatchObject({ name: 'ResourceNotFoundException' })
    await expect.poll(() => double.calls.at(-1)?.operation, { timeout: 20_000 }).toBe('InvokeCodeInterpreter')
    await client.send(
      new StopCodeInterpreterSessionCommand({ codeInterpreterIdentifier: INTERPRETER, sessionId: id }),
    )
    await ended
  })

  it('continues a program after its caller gave up, so that the next call waits for it', async () => {
    const id = await start()
    const stop = new AbortController()
    const given = {
      code: 'import time; time.sleep(2); open("effect", "w").write("x")',
      language: 'python',
    } as const
    const aborted = events(id, 'executeCode', given, { signal: stop.signal })
    const failed = expect(aborted).rejects.toMatchObject({ name: 'AbortError' })
    await expect.poll(() => double.calls.at(-1)?.operation, { timeout: 20_000 }).toBe('InvokeCodeInterpreter')
    stop.abort()
    await failed
    expect((await command(id, 'cat effect'))?.structuredContent?.stdout).toBe('x')
  })

  it('streams text before the result if previews are on', async () => {
    const id = await start()
    double.previews = true
    const ran = await events(id, 'executeCode', {
      code: 'import time\nfor n in range(3):\n    print(n, flush=True)\n    time.sleep(0.1)',
      language: 'python',
    })
    double.previews = false
    expect(ran.length).toBeGreaterThan(1)
    expect(
      ran
        .slice(0, -1)
        .map(({ content }) => content?.[0]?.text)
        .join(''),
    ).toBe('0\n1\n2\n')
    expect(ran.at(-1)?.structuredContent?.stdout).toBe('0\n1\n2')
  })

  it('refuses foreign signatures and unknown interpreters, tools and arguments', async () => {
    const wrong = make({ credentials: { ...EXAMPLE_SECRETS, secretAccessKey: 'wrong' } })
    await expect(start({}, wrong)).rejects.toMatchObject({ name: 'AccessDeniedException' })
    wrong.destroy()
    const plain = await fetch(`${double.origin}/code-interpreters/x/sessions/start`, {
      method: 'PUT',
      body: '{}',
    })
    expect(plain.status).toBe(403)
    double.interpreters = new Set(['mine-0123456789'])
    await start({ codeInterpreterIdentifier: 'mine-0123456789' })
    // The name of an interpreter is not its ID.
    for (const codeInterpreterIdentifier of ['mine', INTERPRETER])
      await expect(start({ codeInterpreterIdentifier })).rejects.toMatchObject({
        name: 'ResourceNotFoundException',
      })
    double.interpreters = null
    const id = await start()
    await expect(events(id, 'nonsense' as ToolName, {})).rejects.toMatchObject({
      name: 'ValidationException',
    })
    await expect(events(id, 'executeCode', {})).rejects.toMatchObject({ name: 'ValidationException' })
    await expect(start({ sessionTimeoutSeconds: 28_801 })).rejects.toMatchObject({
      name: 'ValidationException',
    })
  })
})
