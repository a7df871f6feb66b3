import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { projectFiles } from './project-files.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'cofferdam-project-'))
  for (const name of ['src', 'node_modules/left-pad', '__pycache__', 'ignored'])
    mkdirSync(path.join(folder, name), { recursive: true })
  writeFileSync(path.join(folder, 'src/a.py'), 'x = 1\n')
  writeFileSync(path.join(folder, 'run.sh'), '#!/bin/sh\n')
  chmodSync(path.join(folder, 'run.sh'), 0o755)
  writeFileSync(path.join(folder, 'node_modules/left-pad/index.js'), '')
  writeFileSync(path.join(folder, '__pycache__/a.pyc'), '')
  writeFileSync(path.join(folder, 'ignored/big.bin'), '')
  writeFileSync(path.join(folder, '.gitignore'), 'ignored\nnode_modules\n__pycache__\n')
  symlinkSync('/etc/passwd', path.join(folder, 'link'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const paths = async () => (await projectFiles(folder)).map((file) => file.path)

it('takes all files of a folder except links and generated ones', async () => {
  expect(await paths()).toEqual(['.gitignore', 'ignored/big.bin', 'run.sh', 'src/a.py'])
})

it('takes the files that git lists in a repository', async () => {
  execFileSync('git', ['init', '-q', folder])
  expect(await paths()).toEqual(['.gitignore', 'run.sh', 'src/a.py'])
})

it('keeps bytes and the executable permission', async () => {
  const files = await projectFiles(folder)
  expect(files.find((file) => file.path === 'run.sh')).toEqual({
    path: 'run.sh',
    content_base64: 'IyEvYmluL3NoCg==',
    executable: true,
  })
  expect(files.find((file) => file.path === 'src/a.py')).not.toHaveProperty('executable')
})

it('names the first file that exceeds the limits', async () => {
  writeFileSync(path.join(folder, 'src/huge.bin'), Buffer.alloc(9 * 1024 * 1024))
  await expect(projectFiles(folder)).rejects.toThrow(/src\/huge\.bin is the first file beyond the limit/)
})

it('reports a path that is not a folder', async () => {
  await expect(projectFiles(path.join(folder, 'nothing'))).rejects.toThrow('cannot be read as a folder')
})
