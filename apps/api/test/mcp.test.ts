/** The tools and resources of /mcp, called by the SDK's client in both eras. */
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { ProtocolError } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { callTool, connectMcp, ERAS, listenForMcp, post } from './mcp-client.ts'
import { recordCollection } from './sample-collection.ts'
import { openScene, type Scene } from './scene.ts'

let scene: Scene
let url: string

beforeAll(async () => {
  scene = await openScene()
  url = await listenForMcp(scene.app)
})
afterAll(() => scene[Symbol.asyncDispose]())

const python = (source: string, more: object = {}) => ({ language: 'python', source, ...more })

describe.each(ERAS)('a client of revision %s', (era) => {
  it('lists the tools in a fixed order, each with a schema of its arguments', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const { tools } = await client.listTools()
    const common = ['files', 'session', 'timeout_s', 'memory_mib', 'network', 'wait_s', 'detach']
    expect(tools.map(({ name, inputSchema }) => [name, Object.keys(inputSchema.properties ?? {})])).toEqual([
      ['run_code', [...common, 'language', 'source', 'stdin', 'artifacts', 'preload']],
      ['run_command', [...common, 'argv', 'shell', 'stdin', 'artifacts']],
      ['run_tests', [...common, 'framework', 'path', 'command']],
      ['get_execution', ['execution_id', 'wait_s', 'stdout_from']],
      ['cancel_execution', ['execution_id', 'reason']],
      ['session_files', ['session', 'op', 'path', 'content', 'content_base64']],
      ['execute_code', ['code']],
    ])
    for (const { description = '', outputSchema } of tools) {
      expect(description.length).toBeLessThanOrEqual(600)
      expect(outputSchema).toMatchObject({ type: 'object' })
    }
  })

  it('runs code, and gets how it ended before what it printed', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const result = await callTool(client, 'run_code', python('hello'))
    const { execution_id } = result.structuredContent
    expect(result.structuredContent).toMatchObject({
      status: 'ended',
      ok: true,
      ending: 'ok',
      stdout: 'hello\n',
    })
    expect(result.text).toMatch(
      new RegExp(`^Ended: ok, exit code 0, .*execution_id: ${execution_id}\n\nstdout, 6 bytes:\nhello\n$`),
    )
  })

  it('gets a failed program as a good answer', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const result = await callTool(client, 'run_code', python('fail'))
    expect(result.isError).toBe(false)
    expect(result.structuredContent).toMatchObject({ ok: false, ending: 'error', exit_code: 3 })
  })

  it('gets bad arguments as a tool error that names them', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const result = await callTool(client, 'run_code', { language: 'cobol', sauce: 'x' })
    expect(result.isError).toBe(true)
    expect(result.text).toMatch(/^invalid_request: .*language: .*"cobol".*source: .*sauce/)
    expect(result._meta?.['io.cofferdam/error']).toMatchObject({ code: 'invalid_request', retry: 'never' })
  })

  it('gets bad arguments for what is no ID, however close it comes', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    for (const name of ['get_execution', 'cancel_execution'])
      for (const execution_id of ['', `exe_${'0'.repeat(32)}`, `EXE_${'f'.repeat(32)}`]) {
        const result = await callTool(client, name, { execution_id })
        expect([result.isError, result.text]).toEqual([true, expect.stringMatching(/^invalid_request: /)])
      }
  })

  it('gets a protocol error for a tool that does not exist', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const failure = await client.callTool({ name: 'rm_rf', arguments: {} }).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(ProtocolError)
    expect(failure).toMatchObject({ code: -32_602 })
  })

  it('follows an execution that outlasts the wait, and cancels it', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const live = await callTool(client, 'run_code', python('wait', { wait_s: 0 }))
    const { execution_id } = live.structuredContent
    expect(live.structuredContent.ok).toBeUndefined()
    expect(live.text).toContain(`Call get_execution with execution_id ${execution_id}`)
    const cancelled = await callTool(client, 'cancel_execution', { execution_id, reason: 'enough' })
    expect(['cancelled', 'cancelling']).toContain(cancelled.structuredContent.status)
    const ended = await callTool(client, 'get_execution', { execution_id })
    expect(ended.structuredContent).toMatchObject({
      execution_id,
      status: 'ended',
      ok: false,
      ending: 'cancelled',
    })
    const again = await callTool(client, 'cancel_execution', { execution_id })
    expect(again.structuredContent.status).toBe('ended')
  })

  it('reads artifacts and long output, in parts that end between characters', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const result = await callTool(client, 'run_code', python('big'))
    const { execution_id, artifacts, stdout_truncated } = result.structuredContent
    expect(stdout_truncated).toBe(true)
    const [link] = result.content.filter(({ type }) => type === 'resource_link')
    expect(link).toMatchObject({ uri: artifacts[0].uri, name: 'out/näme.bin', size: 4 })
    const { contents } = await client.readResource({ uri: artifacts[0].uri })
    expect(contents).toEqual([{ uri: artifacts[0].uri, mimeType: 'text/plain; charset=utf-8', text: 'data' }])
    const output = await client.readResource({ uri: `cofferdam://executions/${execution_id}/output/stdout` })
    expect(output.contents[0]).toMatchObject({ mimeType: 'text/plain', text: 'é'.repeat(500_000) })
    const part = await callTool(client, 'get_execution', { execution_id, stdout_from: 999_990 })
    expect(part.structuredContent).toMatchObject({ stdout: 'ééééé', stdout_from: 999_990 })
    expect(part.structuredContent.stdout_next).toBeUndefined()
    const odd = await callTool(client, 'get_execution', { execution_id, stdout_from: 0 })
    expect(odd.structuredContent.stdout).toBe('é'.repeat(16_384))
    expect(odd.structuredContent.stdout_next).toBe(32_768)
  })

  it('tells the type of an artifact by its bytes, whatever its name says', async () => {
    const png = Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\rIHDR', 'latin1')
    const html = '<!doctype html><script>alert(1)</script>'
    const executionId = await recordCollection(scene.store, {
      files: { 'page.html': png, 'image.png': html, 'table.txt': 'a,b\n1,2\n', 'none.csv': '' },
    })
    await using client = await connectMcp(url, scene.acme, era)
    const { content } = await callTool(client, 'get_execution', { execution_id: executionId })
    expect(content.filter(({ type }) => type === 'image')).toEqual([
      { type: 'image', data: png.toString('base64'), mimeType: 'image/png' },
    ])
    const links = content.flatMap((block) => (block.type === 'resource_link' ? [block] : []))
    const text = 'text/plain; charset=utf-8'
    expect(links.map(({ name, mimeType }) => [name, mimeType])).toEqual([
      ['image.png', text],
      ['table.txt', 'text/csv; charset=utf-8'],
      ['none.csv', 'application/octet-stream'],
    ])
    const read = async (path: string) =>
      (await client.readResource({ uri: `cofferdam://executions/${executionId}/artifacts/${path}` }))
        .contents[0]
    expect(await read('page.html')).toMatchObject({ mimeType: 'image/png', blob: png.toString('base64') })
    expect(await read('image.png')).toMatchObject({ mimeType: text, text: html })
  })

  it('lists the templates of resources, and gets invalid params for what does not exist', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const { resourceTemplates } = await client.listResourceTemplates()
    expect(resourceTemplates.map(({ name }) => name)).toEqual(['artifact', 'output'])
    for (const uri of ['cofferdam://executions/x/output/stdout', 'file:///etc/passwd'])
      await expect(client.readResource({ uri })).rejects.toMatchObject({ code: -32_602 })
  })

  it('sees nothing of another tenant', async () => {
    await using acme = await connectMcp(url, scene.acme, era)
    await using globex = await connectMcp(url, scene.globex, era)
    const { structuredContent: own } = await callTool(acme, 'run_code', python('big'))
    const { execution_id, artifacts } = own
    for (const tool of ['get_execution', 'cancel_execution']) {
      const stranger = await callTool(globex, tool, { execution_id })
      expect([stranger.isError, stranger.text]).toEqual([true, expect.stringMatching(/^not_found: /)])
    }
    await expect(globex.readResource({ uri: artifacts[0].uri })).rejects.toMatchObject({ code: -32_602 })
    const meta = { 'io.cofferdam/tenant_id': 'acme' }
    const foreign = await callTool(globex, 'run_code', python('hello'), { meta })
    expect(foreign.text).toMatch(/^forbidden: The API key belongs to another tenant/)
  })

  it('runs for the tenant and the agent that the address and _meta name', async () => {
    await using client = await connectMcp(`${url}?tenant_id=globex&agent_id=coder`, scene.admin, era)
    const named = await callTool(client, 'run_code', python('hello'), {
      meta: { 'io.cofferdam/run_id': 'turn-7', 'io.cofferdam/agent_id': 'reviewer' },
    })
    const { execution_id } = named.structuredContent
    const { json } = await scene.call({ url: `/v1/audit/invocations?tenant_id=globex&limit=1` })
    const source = { invocation_source: 'chat', run_id: 'turn-7' }
    expect(json.invocations[0]).toMatchObject({ execution_id, agent_id: 'reviewer', ...source })
    await using nameless = await connectMcp(url, scene.admin, era)
    const refused = await callTool(nameless, 'run_code', python('hello'))
    expect(refused.text).toMatch(
      /^invalid_request: An admin key has no tenant of its own. Add \?tenant_id=NAME/,
    )
  })

  it('gets one execution for two calls with the same idempotency key', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const meta = { 'io.cofferdam/idempotency_key': `once-${era}`, 'io.cofferdam/tool_call_id': 'call-1' }
    const first = await callTool(client, 'run_code', python('hello'), { meta })
    const second = await callTool(client, 'run_code', python('hello'), { meta })
    expect(second.structuredContent.execution_id).toBe(first.structuredContent.execution_id)
  })

  it('executes code with the result that ThinkWork’s agents know', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const { structuredContent, text, isError } = await callTool(client, 'execute_code', { code: 'hello' })
    expect(structuredContent).toMatchObject({ ok: true, stdout: 'hello\n', stderr: '', exit_status: 'ok' })
    expect(structuredContent.duration_ms).toBeGreaterThanOrEqual(0)
    expect([JSON.parse(text), isError ?? false]).toEqual([structuredContent, false])
    const failed = await callTool(client, 'execute_code', { code: 'fail' })
    expect(failed.structuredContent).toMatchObject({ ok: false, exit_status: 'error', error: 'SandboxError' })
    await using nameless = await connectMcp(url, scene.admin, era)
    const refused = await callTool(nameless, 'execute_code', { code: 'hello' })
    expect(refused.isError ?? false).toBe(false)
    expect(refused.structuredContent).toMatchObject({
      ok: false,
      exit_status: 'error',
      error: 'SandboxError',
    })
  })

  it('gets what to do when a session does not exist', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const result = await callTool(client, 'session_files', { session: 'nobody', op: 'list' })
    expect([result.isError, result.text]).toEqual([true, expect.stringMatching(/^session_not_found: /)])
  })
})

describe('the endpoint', () => {
  const call = (headers: Record<string, string>, address = url) =>
    post(address, 'tools/list', {}, { headers: { ...scene.acme, ...headers } })

  it('refuses a caller without a valid key, without naming a place to log in', async () => {
    const answer = await post(url, 'tools/list', {}, { headers: {} })
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="cofferdam"'])
  })

  it('refuses web pages of other origins', async () => {
    expect((await call({ origin: 'https://evil.example' })).status).toBe(403)
    expect((await call({ origin: 'http://localhost:3000' })).status).toBe(200)
  })

  it('refuses a host name that was rebound to a loopback address', async () => {
    const rebound = request(url, { method: 'POST', headers: { ...scene.acme, host: 'evil.example' } }).end()
    const [answer] = (await once(rebound, 'response')) as [IncomingMessage]
    answer.resume()
    expect(answer.statusCode).toBe(403)
  })

  it('answers GET and DELETE with 405: there are no sessions', async () => {
    for (const method of ['GET', 'DELETE'])
      expect((await fetch(url, { method, headers: scene.acme })).status).toBe(405)
  })

  it('refuses an unknown parameter of the address', async () => {
    expect((await call({}, `${url}?tenant=acme`)).status).toBe(400)
  })
})
