import { createClient } from '@cofferdam/client'
import { LANGUAGES as KNOWN } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { createCodeTool } from './code-tool.ts'
import { LANGUAGES } from './languages.ts'
import type { CodeToolOptions } from './options.ts'

const client = createClient({ baseUrl: 'http://127.0.0.1:1', apiKey: 'cfd_0' })
const options: CodeToolOptions = { client, tenantId: 'acme', agentId: 'analyst' }

describe('createCodeTool', () => {
  it.each([
    ['client', { client: undefined as never }],
    ['tenantId', { tenantId: '' }],
    ['agentId', { agentId: undefined as never }],
    ['name', { name: 'run code' }],
    ['languages', { languages: [] }],
    ['languages', { languages: ['cobol' as never] }],
    ['maxChars', { maxChars: 10 }],
    ['notes', { notes: 'x'.repeat(600) }],
  ])('refuses a wrong %s as misuse', (name, wrong) => {
    expect(() => createCodeTool({ ...options, ...wrong })).toThrow(new RegExp(`^${name}: expected`))
  })

  it.each<[string, Partial<CodeToolOptions>, string[]]>([
    ['the defaults', {}, ['Python, JavaScript (Node.js), TypeScript or bash', '30 s, 256 MiB, no network']],
    ['a session', { session: 'a' }, ['Files and variables stay for the next call.']],
    ['a session of files', { session: { key: 'a', scope: 'files' } }, ['Files stay for the next call.']],
    ['named sessions', { session: { prefix: 'a' } }, ['with the same session share']],
    ['no session', {}, ['Every call starts from nothing.']],
    ['limits', { limits: { hard_timeout_ms: 5000, memory_mib: 512 } }, ['Limits: 5 s, 512 MiB']],
    ['hosts', { network: { allow: ['example.org'] } }, ['network only to example.org']],
    ['notes', { notes: 'pandas is installed.' }, ['pandas is installed.']],
    ['one language', { languages: ['python'] }, ['Run Python in an isolated sandbox']],
  ])('describes %s', (_name, more, parts) => {
    const { description } = createCodeTool({ ...options, ...more })
    for (const part of parts) expect(description).toContain(part)
    expect(description.length).toBeLessThanOrEqual(600)
  })

  it('tells a person what a call would do, for an approval', () => {
    const tool = createCodeTool({ ...options, network: 'public' })
    const files = [{ path: 'a.csv', content: '1' }]
    expect(tool.approvalFacts({ language: 'bash', source: 'ls', files })).toEqual({
      language: 'bash',
      source: 'ls',
      network: 'public',
      hardTimeoutMs: 30_000,
      files: ['a.csv'],
    })
    expect(tool.approvalFacts({ language: 'cobol' })).toBeNull()
  })

  it('has the API’s languages', () => {
    expect(LANGUAGES).toEqual(KNOWN)
  })
})
