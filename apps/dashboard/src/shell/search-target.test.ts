import { expect, it } from 'vitest'
import { searchTarget } from './search-target.ts'

const HEX = '0123456789abcdef'

it.each([
  [`exe_${HEX}${HEX}`, `/executions/exe_${HEX}${HEX}`, {}],
  [` EXE_${HEX.toUpperCase()}${HEX} `, `/executions/exe_${HEX}${HEX}`, {}],
  [HEX + HEX, '/executions', { trace_id: HEX + HEX }],
  [HEX.repeat(4), '/executions', { code_hash: HEX.repeat(4) }],
  ['api.example.com:443', '/executions', { outbound_host: 'api.example.com:443' }],
  ['analyst', '/executions', { agent_id: 'analyst' }],
  ['../v1/../x', '/executions', { agent_id: '../v1/../x' }],
  ['exe_short', '/executions', { agent_id: 'exe_short' }],
])('leads %j to %s', (text, path, query) => {
  expect(searchTarget(text)).toEqual({ path, query })
})

it('leads nowhere without a text', () => {
  expect(searchTarget('  ')).toBeNull()
})
