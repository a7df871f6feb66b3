/**
 * The MCP clients inside three agent SDKs, as agents use them: the SDK finds the tools, a scripted model
 * calls one, and is shown the result. The programs are in tests/mcp-oracles/agents.
 */
import type { RunningApi } from '@cofferdam/api'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, describe, expect } from 'vitest'
import { openOracles, type Oracles } from '../../apps/api/test/oracle-programs.ts'
import { startFleet, type Fleet } from '../fleet.ts'

const onProcess = needs('process-namespaces')
let oracles: Oracles
let fleet: Fleet
let api: RunningApi
let authorization: string

beforeAll(async () => {
  oracles = await openOracles()
  fleet = await startFleet()
  await fleet.createTenant('acme', { caps: { tenant_daily: 1000, agent_hourly: 1000 } })
  authorization = `Bearer ${(await fleet.store.keys.create({ tenant_id: 'acme' }, 'test')).key}`
  await fleet.runWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '2' })
  api = await fleet.runApi()
}, 600_000)
afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]()
  await oracles?.[Symbol.asyncDispose]()
})

interface Played {
  tools: string[]
  shown: Record<'works' | 'fails' | 'draws', unknown>
  cancelled: { execution_id: string; outcome: string }
}

const TOOLS = [
  'run_code',
  'run_command',
  'run_tests',
  'get_execution',
  'cancel_execution',
  'session_files',
  'execute_code',
]

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='

describe.each(['ai-sdk', 'openai-agents', 'langchain'])('an agent of %s', (sdk) => {
  onProcess.it('finds the tools, is shown results, failures and images, and can cancel', async () => {
    const program = `../agents/${sdk}.mjs`
    const env = { COFFERDAM_MCP_URL: `${api.url}/mcp`, COFFERDAM_MCP_AUTHORIZATION: authorization }
    const { code, stdout, stderr } = await oracles.run(program, [], { timeoutMs: 170_000, env })
    expect(code, stderr).toBe(0)
    const { tools, shown, cancelled } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Played
    expect(tools.toSorted()).toEqual(TOOLS.toSorted())
    const [works, fails, draws] = [shown.works, shown.fails, shown.draws].map((one) => JSON.stringify(one))
    expect(works).toContain('six 6')
    expect(works).toContain('42')
    // A traceback is an answer for the model, not an exception in the agent.
    expect(fails).toContain('ValueError: no luck')
    expect(fails).toContain('exit code 1')
    expect(draws).toContain(PNG)
    expect(cancelled.outcome).toMatch(/Abort/)
    const { execution_id } = cancelled
    await expect.poll(() => endingOf(execution_id), { timeout: 30_000 }).toBe('cancelled')
  })
})

async function endingOf(id: string): Promise<string | undefined> {
  const answer = await fetch(`${api.url}/v1/executions/${id}`, { headers: { authorization } })
  return ((await answer.json()) as { result?: { ending?: string } | null }).result?.ending
}
