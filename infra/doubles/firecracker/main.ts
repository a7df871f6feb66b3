/**
 * `node infra/doubles/firecracker/main.ts --dir FOLDER` puts the two programs into a folder and prints one
 * line of JSON. They need no server, so it ends only when it is stopped, and then removes them.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { installDouble } from './install-double.ts'

const { values } = parseArgs({ options: { port: { type: 'string' }, dir: { type: 'string' } } })
if (values.dir === undefined) {
  console.error('expected --dir FOLDER')
  process.exit(2)
}
const folder = resolve(values.dir)
mkdirSync(folder, { recursive: true })
const { firecracker, jailer, record } = installDouble(folder)
console.log(JSON.stringify({ double: 'firecracker', firecracker, jailer, record }))
const timer = setInterval(() => {}, 60_000)
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    clearInterval(timer)
    for (const name of ['firecracker', 'jailer', 'double.json', 'calls.jsonl'])
      rmSync(join(folder, name), { force: true })
  })
