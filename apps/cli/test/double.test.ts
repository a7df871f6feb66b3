/** `cofferdam double managed-agents`: what it prints, and the chat through the command. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { runHere } from './command-here.ts'
import { run, start } from './command-process.ts'

const SOON = 30_000
const here = { cwd: tmpdir(), env: {} }

it('prints the address, and settings whose key file holds the environment key until it ends', async () => {
  const double = start(['double', 'managed-agents'], here)
  await expect.poll(() => double.stdout, { timeout: SOON }).toMatch(/base_url: .*\n/)
  const [first = '', ...rest] = double.stdout.split('\n')
  const said = JSON.parse(first) as Record<string, string>
  const [, keyFile = ''] = /key_file: "(.*)"/.exec(double.stdout) ?? []
  expect(rest).toEqual([
    expect.stringContaining('cofferdam.config.yaml'),
    'dispatcher:',
    '  environments:',
    `    - id: "${said['environment_id']}"`,
    '      tenant_id: demo',
    `      key_file: "${keyFile}"`,
    `      base_url: "${said['origin']}"`,
    '',
  ])
  expect(readFileSync(keyFile, 'utf8')).toBe(said['environment_key'])
  expect(statSync(keyFile).mode & 0o777).toBe(0o600)
  double.child.kill('SIGTERM')
  expect(await double.ended).toMatchObject({ status: 0, stderr: '' })
  expect(existsSync(keyFile)).toBe(false)
})

it('prints an OAuth issuer, and how to start a fleet that accepts its tokens', async () => {
  const double = start(['double', 'oauth', '--tenant', 'acme'], here)
  await expect.poll(() => double.stdout, { timeout: SOON }).toMatch(/It logs in by itself/)
  const { issuer } = JSON.parse(double.stdout.split('\n', 1)[0] ?? '') as { issuer: string }
  expect(double.stdout).toContain(
    `COFFERDAM_OAUTH_ISSUER=${issuer} COFFERDAM_PUBLIC_URL=http://127.0.0.1:7070`,
  )
  const form = { grant_type: 'client_credentials', client_id: 'ci', resource: 'http://127.0.0.1:7070/mcp' }
  const answer = await fetch(`${issuer}/token`, { method: 'POST', body: new URLSearchParams(form) })
  const { access_token } = (await answer.json()) as { access_token: string }
  const claims = JSON.parse(Buffer.from(access_token.split('.')[1] ?? '', 'base64url').toString()) as object
  expect(claims).toMatchObject({ iss: issuer, aud: form.resource, tenant_id: 'acme', client_id: 'ci' })
  double.child.kill('SIGTERM')
  expect(await double.ended).toMatchObject({ status: 0, stderr: '' })
})

it('answers the lines of a chat, and ends with its input', async () => {
  const { status, stdout } = await run(
    ['double', 'managed-agents', '--chat'],
    here,
    'read\nwhat can you do?\n',
  )
  expect(status).toBe(0)
  expect(stdout).toContain('read needs a path.')
  expect(stdout).toContain('I am a script, not a model.')
})

it.each([
  [['managed-agents', '--chat', '--json'], '--chat prints text'],
  [['e2b', '--chat'], 'The double of e2b takes no --chat.'],
  [['managed-agents', '--dir', '.'], 'The double of managed-agents takes no --dir.'],
])('refuses %j', async (words, why) => {
  const { status, stderr, stdout } = await runHere(['double', ...words], here)
  expect(status).toBe(2)
  expect(stderr + stdout).toContain(why)
})

it('puts the two programs of Firecracker into a folder until it ends', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-double-'))
  const double = start(['double', 'firecracker', '--dir', folder], here)
  await expect.poll(() => double.stdout, { timeout: SOON }).toMatch(/Nothing here is isolated/)
  for (const [name, words] of [
    ['firecracker', 'Firecracker v1.16.1\n'],
    ['jailer', 'Jailer v1.16.1\n'],
  ] as const) {
    expect(double.stdout).toContain(`${name}: "${join(folder, name)}"`)
    expect(execFileSync(join(folder, name), ['--version'], { encoding: 'utf8' })).toContain(words)
  }
  double.child.kill('SIGTERM')
  expect(await double.ended).toMatchObject({ status: 0, stderr: '' })
  expect(readdirSync(folder)).toEqual([])
  rmdirSync(folder)
})
