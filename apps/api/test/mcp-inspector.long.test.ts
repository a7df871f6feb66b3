/** MCP's Inspector judges /mcp, over both transports. */
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listenForMcp } from './mcp-client.ts'
import { openOracles, type Oracles } from './oracle-programs.ts'
import { openScene, type Scene } from './scene.ts'

let oracles: Oracles
let scene: Scene
let url: string

beforeAll(async () => {
  oracles = await openOracles()
  scene = await openScene()
  url = await listenForMcp(scene.app)
}, 600_000)
afterAll(async () => {
  await scene[Symbol.asyncDispose]()
  await oracles[Symbol.asyncDispose]()
})

describe('the Inspector', () => {
  const inspector = (...args: string[]) =>
    oracles.run('@modelcontextprotocol/inspector/clients/launcher/build/index.js', ['--cli', ...args])
  const direct = () => [url, '--header', `Authorization: ${scene.acme.authorization}`]

  it('finds no error in the schemas of the tools', async () => {
    const { code, stdout, stderr } = await inspector(...direct(), '--method', 'tools/list', '--strict')
    expect(code, stderr).toBe(0)
    expect(JSON.parse(stdout).tools).toHaveLength(7)
  })

  it('calls a tool over HTTP', async () => {
    const asked = ['--method', 'tools/call', '--tool-name', 'run_code', '--tool-arg', 'language=python']
    const { code, stdout } = await inspector(...direct(), ...asked, 'source=hello')
    expect([code, JSON.parse(stdout).structuredContent.stdout]).toEqual([0, 'hello\n'])
  })

  it('calls a tool over stdio', async () => {
    const main = fileURLToPath(new URL('../../cli/src/main.ts', import.meta.url))
    const key = scene.acme.authorization.replace('Bearer ', '')
    const env = ['-e', `COFFERDAM_API_KEY=${key}`, '-e', `COFFERDAM_URL=${url.replace('/mcp', '')}`]
    const asked = ['--method', 'tools/call', '--tool-name', 'execute_code', '--tool-arg', 'code=hello']
    const { code, stdout, stderr } = await inspector(...env, process.execPath, main, 'mcp', ...asked)
    expect(code, stderr).toBe(0)
    expect(JSON.parse(stdout).structuredContent).toMatchObject({ ok: true, stdout: 'hello\n' })
  })
})
