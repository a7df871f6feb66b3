import {
  mkdtempSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { mergeUsr } from './merge-usr.ts'

it('moves files of packages below /bin into /usr, and accepts links that a package has itself', async () => {
  const root = mkdtempSync(join(tmpdir(), 'cofferdam-usr-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  // Like bookworm's bash, which has /bin/bash, and trixie's base-files, which has the link /lib.
  for (const folder of ['bin', 'usr/bin', 'usr/lib']) mkdirSync(join(root, folder), { recursive: true })
  writeFileSync(join(root, 'bin/bash'), 'old place')
  writeFileSync(join(root, 'usr/bin/env'), 'new place')
  writeFileSync(join(root, 'usr/lib/libc.so'), 'library')
  symlinkSync('usr/lib', join(root, 'lib'))
  await mergeUsr(root)
  for (const name of ['bin', 'sbin', 'lib', 'lib64'])
    expect(readlinkSync(join(root, name))).toBe(`usr/${name}`)
  expect(
    ['bin/bash', 'bin/env', 'lib/libc.so'].map((path) => readFileSync(join(root, path), 'utf8')),
  ).toEqual(['old place', 'new place', 'library'])
})
