/**
 * AWS's unmodified clients test AgentCore's double: every operation and tool of the code interpreter with the
 * parameters and errors of the API reference, and operations that the double does not have.
 */
import {
  BedrockAgentCoreClient,
  GetCodeInterpreterSessionCommand,
  InvokeAgentRuntimeCommand,
  InvokeCodeInterpreterCommand,
  ListCodeInterpreterSessionsCommand,
  StartBrowserSessionCommand,
  StartCodeInterpreterSessionCommand,
  StopCodeInterpreterSessionCommand,
  type CodeInterpreterResult,
  type ToolArguments,
  type ToolName,
} from '@aws-sdk/client-bedrock-agentcore'
import {
  BedrockAgentCoreControlClient,
  CreateCodeInterpreterCommand,
  DeleteCodeInterpreterCommand,
  GetCodeInterpreterCommand,
  ListBrowsersCommand,
  ListCodeInterpretersCommand,
  paginateListCodeInterpreters,
} from '@aws-sdk/client-bedrock-agentcore-control'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startAccountDouble, type AccountDouble } from '../double/control/control-plane.ts'

const invalid = { name: 'ValidationException', $metadata: { httpStatusCode: 400, attempts: 1 } }
const absent = { name: 'ResourceNotFoundException', $metadata: { httpStatusCode: 404, attempts: 1 } }
const unknown = { name: 'UnknownOperationException', $metadata: { httpStatusCode: 404, attempts: 1 } }

describe('AgentCore’s double, called by AWS’s clients', () => {
  let double: AccountDouble
  let data: BedrockAgentCoreClient
  let control: BedrockAgentCoreControlClient
  let mine = ''

  const make = async (name: string, more: object = {}): Promise<string> => {
    const asked = { name, networkConfiguration: { networkMode: 'SANDBOX' as const }, ...more }
    return (await control.send(new CreateCodeInterpreterCommand(asked))).codeInterpreterId ?? ''
  }

  beforeAll(async () => {
    double = await startAccountDouble()
    double.knobs.changesPerSecond = 1000
    double.data.ratePerSecond = 1000
    const options = { region: double.region, endpoint: double.origin, credentials: double.secrets }
    data = new BedrockAgentCoreClient(options)
    control = new BedrockAgentCoreControlClient(options)
    mine = await make('mine')
  })
  afterEach(async () => {
    await double.data.sessions.close()
  })
  afterAll(async () => {
    data.destroy()
    control.destroy()
    await double[Symbol.asyncDispose]()
  })

  const start = async (more: object = {}): Promise<string> => {
    const asked = { codeInterpreterIdentifier: mine, ...more }
    return (await data.send(new StartCodeInterpreterSessionCommand(asked))).sessionId ?? ''
  }

  needs('bwrap').describe('a session', () => {
    const tool = async (
      sessionId: string,
      name: ToolName,
      given: ToolArguments,
    ): Promise<CodeInterpreterResult> => {
      const asked = { codeInterpreterIdentifier: mine, sessionId, name, arguments: given }
      const { stream } = await data.send(new InvokeCodeInterpreterCommand(asked))
      const results: CodeInterpreterResult[] = []
      for await (const { result } of stream ?? []) if (result !== undefined) results.push(result)
      expect(results).toHaveLength(1)
      return results[0] ?? expect.fail('no result')
    }
    const stdout = async (sessionId: string, given: ToolArguments): Promise<string | undefined> =>
      (await tool(sessionId, 'executeCode', given)).structuredContent?.stdout

    it('keeps the variables of cells until a call clears them', async () => {
      const id = await start()
      await stdout(id, { language: 'python', code: 'kept = 1' })
      const code = "print('kept' in globals())"
      expect(await stdout(id, { language: 'python', code })).toBe('True')
      expect(await stdout(id, { language: 'python', code, clearContext: true })).toBe('False')
    })

    it.each([
      ['python', 'print(6 * 7)'],
      ['javascript', 'console.log(6 * 7)'],
      ['typescript', 'const n: number = 42\nconsole.log(n)'],
    ] as const)('runs %s', async (language, code) => {
      expect(await stdout(await start(), { language, code })).toBe('42')
    })

    it('writes, lists, reads and removes files, also in folders', async () => {
      const id = await start()
      const content = [
        { path: 'top.txt', text: 'top' },
        { path: 'a/b/deep.bin', blob: new Uint8Array([0, 255, 1]) },
      ]
      expect((await tool(id, 'writeFiles', { content })).isError).toBe(false)
      const names = async (given: ToolArguments): Promise<(string | undefined)[]> =>
        ((await tool(id, 'listFiles', given)).content ?? []).map(({ name }) => name)
      expect(await names({})).toEqual(['a', 'top.txt'])
      expect(await names({ directoryPath: 'a' })).toEqual(['b'])
      expect(await names({ path: 'a/b' })).toEqual(['deep.bin'])
      const read = await tool(id, 'readFiles', { paths: ['top.txt', 'a/b/deep.bin'] })
      expect(read.content?.map(({ resource }) => resource?.text ?? [...(resource?.blob ?? [])])).toEqual([
        'top',
        [0, 255, 1],
      ])
      expect((await tool(id, 'removeFiles', { paths: ['top.txt', 'a/b/deep.bin'] })).isError).toBe(false)
      expect(await names({ directoryPath: 'a/b' })).toEqual([])
    })

    it.each([
      ['readFiles', { paths: ['absent'] }],
      ['readFiles', { paths: ['folder'] }],
      ['listFiles', { directoryPath: 'absent' }],
      ['listFiles', { directoryPath: '../..' }],
      ['removeFiles', { paths: ['absent'] }],
      ['removeFiles', { paths: ['folder'] }],
      ['writeFiles', { content: [{ path: 'folder', text: 'x' }] }],
      ['writeFiles', { content: [{ path: 'x'.repeat(300), text: 'x' }] }],
      ['getTask', { taskId: 'absent' }],
      ['stopTask', { taskId: 'absent' }],
    ] as const)('reports that %s fails with %j, and continues', async (name, given) => {
      const id = await start()
      await tool(id, 'executeCommand', { command: 'mkdir folder' })
      expect(await tool(id, name, given as unknown as ToolArguments)).toMatchObject({
        isError: true,
        content: [{ type: 'text', text: expect.stringMatching(/./) as string }],
      })
      expect(await stdout(id, { language: 'python', code: 'print(1)' })).toBe('1')
    })

    it.each([
      ['executeCode', { language: 'python' }],
      ['executeCode', { code: '1', language: 'ruby' }],
      ['executeCommand', {}],
      ['readFiles', {}],
      ['writeFiles', {}],
      ['removeFiles', {}],
      ['startCommandExecution', {}],
      ['getTask', {}],
      ['stopTask', {}],
      ['inventTool', {}],
    ])('refuses %s with %j: ValidationException', async (name, given) => {
      await expect(tool(await start(), name as ToolName, given as ToolArguments)).rejects.toMatchObject(
        invalid,
      )
    })

    it('reports the exit code and output of a task', async () => {
      const id = await start()
      const { structuredContent } = await tool(id, 'startCommandExecution', {
        command: 'echo why >&2; exit 3',
      })
      const taskId = structuredContent?.taskId ?? ''
      await expect
        .poll(async () => await tool(id, 'getTask', { taskId }), { timeout: 20_000 })
        .toMatchObject({
          isError: true,
          structuredContent: { taskStatus: 'failed', exitCode: 3, stderr: 'why' },
        })
      expect(await tool(id, 'stopTask', { taskId })).toMatchObject({ isError: true })
    })

    it('is listed page by page, by state, and only for its own interpreter', async () => {
      const ids = [await start(), await start({ name: 'named' }), await start()]
      const asked = { codeInterpreterIdentifier: mine }
      const seen: (string | undefined)[] = []
      let nextToken: string | undefined
      do {
        const query = { ...asked, status: 'READY' as const, maxResults: 2, ...(nextToken && { nextToken }) }
        const page = await data.send(new ListCodeInterpreterSessionsCommand(query))
        expect(page.items?.length).toBeLessThanOrEqual(2)
        seen.push(...(page.items ?? []).map(({ sessionId }) => sessionId))
        nextToken = page.nextToken
      } while (nextToken !== undefined)
      expect(seen.toSorted()).toEqual(ids.toSorted())
      const other = await make('other')
      const elsewhere = { codeInterpreterIdentifier: other, sessionId: ids[0] ?? '' }
      const list = new ListCodeInterpreterSessionsCommand({ codeInterpreterIdentifier: other })
      expect((await data.send(list)).items).toEqual([])
      await expect(data.send(new GetCodeInterpreterSessionCommand(elsewhere))).rejects.toMatchObject(absent)
      await expect(data.send(new StopCodeInterpreterSessionCommand(elsewhere))).rejects.toMatchObject(absent)
    })

    it('is not started with options that the double does not support', async () => {
      const before = double.data.sessions.started
      for (const more of [
        { certificates: [{ location: { secretsManager: { secretArn: 'arn:aws:secretsmanager:x' } } }] },
        { filesystemConfigurations: [{ sessionStorage: { mountPath: '/mnt' } }] },
        { name: '' },
        { sessionTimeoutSeconds: 0 },
      ])
        await expect(start(more)).rejects.toMatchObject(invalid)
      expect(double.data.sessions.started).toBe(before)
    })
  })

  it.each([{ maxResults: 0 }, { maxResults: 101 }, { nextToken: 'no token' }])(
    'refuses to list sessions and interpreters with %j',
    async (query) => {
      const sessions = { codeInterpreterIdentifier: mine, ...query }
      await expect(data.send(new ListCodeInterpreterSessionsCommand(sessions))).rejects.toMatchObject(invalid)
      await expect(control.send(new ListCodeInterpretersCommand(query))).rejects.toMatchObject(invalid)
    },
  )

  it('shows an interpreter’s name only in the list, and frees the name after deletion', async () => {
    const id = await make('by_name', { description: 'found again' })
    const found: (string | undefined)[] = []
    for await (const page of paginateListCodeInterpreters(
      { client: control, pageSize: 1 },
      { type: 'CUSTOM' },
    ))
      for (const one of page.codeInterpreterSummaries ?? [])
        if (one.name === 'by_name') found.push(one.codeInterpreterId)
    expect(found).toEqual([id])
    expect(await control.send(new GetCodeInterpreterCommand({ codeInterpreterId: id }))).toMatchObject({
      name: 'by_name',
      description: 'found again',
      networkConfiguration: { networkMode: 'SANDBOX' },
    })
    for (const codeInterpreterId of ['by_name', 'absent-0123456789'])
      await expect(control.send(new GetCodeInterpreterCommand({ codeInterpreterId }))).rejects.toMatchObject(
        absent,
      )
    const deletion = new DeleteCodeInterpreterCommand({ codeInterpreterId: id })
    expect(await control.send(deletion)).toMatchObject({ codeInterpreterId: id, status: 'DELETING' })
    await expect(control.send(deletion)).rejects.toMatchObject(absent)
    expect(await make('by_name')).not.toBe(id)
  })

  it('refuses interpreter options that it does not support, and lists no system interpreters', async () => {
    for (const more of [
      { certificates: [{ location: { secretsManager: { secretArn: 'arn:aws:secretsmanager:x' } } }] },
      { filesystemConfigurations: [{ sessionStorage: { mountPath: '/mnt' } }] },
      { networkConfiguration: { networkMode: 'VPC' as const } },
    ])
      await expect(make('refused', more)).rejects.toMatchObject(invalid)
    await expect(control.send(new ListCodeInterpretersCommand({ type: 'SYSTEM' }))).rejects.toMatchObject({
      ...invalid,
      message: expect.stringContaining('this double') as string,
    })
  })

  it('answers unsupported operations as the service answers unknown ones, once', async () => {
    const browser = new StartBrowserSessionCommand({ browserIdentifier: 'aws.browser.v1' })
    await expect(data.send(browser)).rejects.toMatchObject(unknown)
    const runtime = new InvokeAgentRuntimeCommand({ agentRuntimeArn: 'arn:aws:x', payload: new Uint8Array() })
    await expect(data.send(runtime)).rejects.toMatchObject(unknown)
    await expect(control.send(new ListBrowsersCommand({}))).rejects.toMatchObject(unknown)
  })
})
