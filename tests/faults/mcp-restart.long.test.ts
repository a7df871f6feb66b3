/**
 * A thousand tool calls at once over stdio, while the API behind them is killed and started again. Each call
 * is answered with its own result, and each program ran once.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { needs } from '@cofferdam/embedded/needs'
import { Client, type CallToolResult } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, expect } from 'vitest'
import { freePort } from '../../libs/embedded/src/free-port.ts'
import { startFleet, type Fleet } from '../fleet.ts'

const CALLS = 1000
/** Kills the API twice, each time after this many answered calls. */
const KILLS = [150, 600]

const app = (name: string): string =>
  fileURLToPath(new URL(`../../apps/${name}/src/main.ts`, import.meta.url))
const { PATH = '' } = process.env
let fleet: Fleet
let key: string
let port: number
let api: ChildProcess

async function startApi(): Promise<ChildProcess> {
  const { redisUrl, databaseUrl, dataDir } = fleet
  const stores = { REDIS_URL: redisUrl, DATABASE_URL: databaseUrl, COFFERDAM_DATA_DIR: dataDir }
  const env = { PATH, ...stores, COFFERDAM_PORT: String(port), COFFERDAM_LOG_LEVEL: 'error' }
  const child = spawn(process.execPath, [app('api')], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  await once(createInterface({ input: child.stdout }), 'line')
  return child
}

beforeAll(async () => {
  fleet = await startFleet()
  port = await freePort()
  await fleet.createTenant('acme', { caps: { tenant_daily: 100_000, agent_hourly: 100_000 } })
  key = (await fleet.store.keys.create({ tenant_id: 'acme' }, 'test')).key
  await fleet.startWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '4' })
  api = await startApi()
})
afterAll(async () => {
  api?.kill('SIGKILL')
  await fleet?.[Symbol.asyncDispose]()
})

/** Audit rows of a tenant, one per attempt. A program that ran twice would have two. */
async function rowsOf(tenantId: string): Promise<number> {
  let rows = 0
  for (let cursor: string | undefined; ;) {
    const page = await fleet.store.listAudit({
      tenantId,
      limit: 500,
      ...(cursor === undefined ? {} : { cursor }),
    })
    rows += page.rows.length
    if (page.next_cursor === null) return rows
    cursor = page.next_cursor
  }
}

needs('process-namespaces').it(
  'answers every call once while the API is killed',
  { timeout: 600_000 },
  async () => {
    const client = new Client({ name: 'crowd', version: '1.0.0' })
    const errors: unknown[] = []
    client.onerror = (error) => errors.push(error)
    const env = { PATH, COFFERDAM_URL: `http://127.0.0.1:${port}`, COFFERDAM_API_KEY: key }
    await client.connect(
      new StdioClientTransport({
        command: process.execPath,
        args: [app('cli'), 'mcp'],
        env,
        stderr: 'ignore',
      }),
    )
    const kills = [...KILLS]
    let restarting: Promise<unknown> = Promise.resolve()
    let answered = 0
    const restart = async (): Promise<void> => {
      api.kill('SIGKILL')
      await once(api, 'exit')
      api = await startApi()
    }
    const ask = async (name: string, args: object) => {
      const result = (await client.callTool(
        { name, arguments: { ...args } },
        { timeout: 300_000 },
      )) as CallToolResult
      expect(result.isError ?? false, JSON.stringify(result.content)).toBe(false)
      return result.structuredContent as { execution_id: string; status: string; stdout?: string }
    }
    const one = async (n: number): Promise<{ execution_id: string; stdout?: string }> => {
      // The calls share eight sessions, because a thousand sandboxes would take minutes.
      const session = `s${n % 8}`
      let seen = await ask('run_code', { language: 'python', source: `print(${n})`, session })
      while (seen.status !== 'ended') seen = await ask('get_execution', { execution_id: seen.execution_id })
      answered += 1
      if (kills[0] === answered) {
        kills.shift()
        restarting = restart()
      }
      return seen
    }
    try {
      const results = await Promise.all(Array.from({ length: CALLS }, (_, n) => one(n)))
      await restarting
      expect(results.map(({ stdout }) => stdout)).toEqual(results.map((_, n) => `${n}\n`))
      expect(new Set(results.map(({ execution_id }) => execution_id)).size).toBe(CALLS)
      expect(kills).toEqual([])
      expect(errors).toEqual([])
      expect(await rowsOf('acme')).toBe(CALLS)
    } finally {
      await client.close()
    }
  },
)
