import { expect, it } from 'vitest'
import { redirectLock } from './lock-addresses.ts'

const OURS = 'http://packages.cofferdam.internal/npm/'

it.each([
  ['  resolved "https://registry.example/', ''],
  ['  resolved "https://registry.example/npm/', ''],
  ['  resolved "http://127.0.0.1:4873/', '#0a1b'],
  ['  resolved "https://user:secret@npm.corp.example:8443/artifactory/api/npm/all/', '#0a1b'],
  [`  resolved "${OURS}`, '#0a1b'],
])('moves tarballs of registries to the package proxy: %s', (before, digest) => {
  for (const path of [
    'lodash/-/lodash-4.17.21.tgz',
    '@acme/tool/-/tool-1.4.0.tgz',
    '@acme%2ftool/-/tool-1.4.0.tgz',
  ])
    expect(redirectLock(`${before}${path}${digest}"\n`)).toBe(`  resolved "${OURS}${path}${digest}"\n`)
})

it('redirects all addresses in lock files of pnpm', () => {
  const line = (base: string): string =>
    `    resolution: {integrity: sha512-a/b+c==, tarball: ${base}@acme/tool/-/tool-1.4.0.tgz}\n`
  expect(redirectLock(line('https://npm.corp.example/x/').repeat(2))).toBe(line(OURS).repeat(2))
})

it.each([
  '  resolved "https://codeload.github.com/a/b/tar.gz/0a1b2c"\n',
  '  resolved "git+https://github.com/a/b.git#0a1b2c"\n',
  '  resolved "https://files.example/downloads/thing.tgz#0a1b"\n',
  '"@acme/tool@npm:^1.0.0":\n  resolution: "@acme/tool@npm:1.4.0"\n',
])('leaves the rest as it is: %s', (text) => {
  expect(redirectLock(text)).toBe(text)
})

it.each(['https://', 'https://a/', 'https://a/@b/-/c', 'https://a/-/', '%2f'])(
  'reads a line of %s in little time',
  (unit) => {
    const before = process.cpuUsage()
    redirectLock(`https://a/@${unit.repeat(2 ** 18 / unit.length)}@/-/x.tgz`)
    // Milliseconds. Searching to the end of the line from each `https://` would take 14 seconds or more.
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(2000)
  },
)
