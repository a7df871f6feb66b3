/**
 * Managed Agents sessions whose tool calls run in this fleet: the double of the control plane, the real SDK in
 * real dispatchers, a real worker and real sandboxes.
 */
import { afterAll, beforeAll, describe, expect } from 'vitest'
import { needs } from '@cofferdam/embedded/needs'
import {
  startManagedAgents,
  type ManagedAgentsDouble,
} from '../../infra/doubles/managed-agents/managed-agents-double.ts'
import type { ToolCall } from '../../infra/doubles/managed-agents/tool-calls.ts'
import { startDispatcher } from '../dispatcher.ts'
import { startFleet, type Fleet } from '../fleet.ts'

const onProcess = needs('process-namespaces')
let fleet: Fleet

beforeAll(async () => {
  fleet = await startFleet()
  await fleet.createTenant('acme', {
    policy: { min_isolation: 'none' },
    caps: { tenant_daily: 10_000, agent_hourly: 10_000, concurrency: 64 },
  })
  await fleet.startWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '4' })
})
afterAll(() => fleet?.[Symbol.asyncDispose]())

const textOf = (call: ToolCall): string =>
  (call.result?.content ?? []).map((block) => (block.type === 'text' ? block.text : '')).join('')
const bash = (command: string) => ({ tool_use: { name: 'bash', input: { command } } })
const answersOf = (session: ReturnType<ManagedAgentsDouble['createSession']>): string[] =>
  [...session.results.values()].map(textOf)

describe('a session of Managed Agents', () => {
  onProcess.it(
    'runs every tool in one sandbox, whose shell and background jobs live on between calls',
    async () => {
      await using double = await startManagedAgents()
      const session = double.createSession({
        script: [
          bash('cd /tmp && export COLOUR=green && (sleep 300 & echo $! > /tmp/job)'),
          bash('echo "$PWD $COLOUR"; kill -0 $(cat /tmp/job) && echo alive'),
          { tool_use: { name: 'write', input: { file_path: 'notes/a.txt', content: 'one\ntwo\n' } } },
          {
            tool_use: {
              name: 'edit',
              input: { file_path: 'notes/a.txt', old_string: 'two', new_string: '2' },
            },
          },
          { tool_use: { name: 'read', input: { file_path: 'notes/a.txt' } } },
          { tool_use: { name: 'glob', input: { pattern: '**/*.txt' } } },
          { tool_use: { name: 'grep', input: { pattern: 'one', path: 'notes' } } },
          bash('exit 3'),
          bash('echo "${COLOUR:-gone}"'),
          { idle: 'end_turn' },
        ],
      })
      const dispatcher = await startDispatcher(fleet, double)
      await session.untilAnswered(9)
      expect(answersOf(session)).toMatchInlineSnapshot(`
        [
          "(no output)",
          "/tmp green
        alive",
          "wrote 8 bytes to notes/a.txt",
          "edited notes/a.txt (1 replacement(s))",
          "one
        2
        ",
          "/tmp/work/notes/a.txt",
          "/tmp/work/notes/a.txt:1:one",
          "bash: bash session terminated",
          "gone",
        ]
      `)
      expect([...session.results.values()].map(({ answers }) => answers)).toEqual(Array(9).fill(1))
      expect(await dispatcher.stop()).toBe(0)
    },
  )
})
