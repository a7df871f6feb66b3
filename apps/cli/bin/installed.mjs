#!/usr/bin/env node
/**
 * The command as npm installs it: runs main.js on the Node that npm installed with it. Where that Node does
 * not start (musl, Windows), it uses the Node of this process. This file is plain JavaScript, because it
 * runs on whatever Node the machine has.
 */
import fs from 'fs'
import { createRequire } from 'module'
import path from 'path'
import { fileURLToPath } from 'url'
import { whyNot } from '../../../scripts/pinned-node.mjs'
import { endLike, run } from '../../../scripts/run-child.mjs'

/** From this version on Node has all that the command uses. */
const OLDEST_NODE = 24

const main = fileURLToPath(new URL('../src/main.js', import.meta.url))

/** The binary of this platform's package. Null when npm installed none. */
function installedNode() {
  const require = createRequire(import.meta.url)
  const { optionalDependencies } = require('../../../../package.json')
  const file = process.platform === 'win32' ? 'node.exe' : path.join('bin', 'node')
  const names = Object.keys(optionalDependencies).filter((name) => /^node-(bin-)?(linux|darwin)-/.test(name))
  for (const name of names) {
    try {
      const binary = path.join(path.dirname(require.resolve(name + '/package.json')), file)
      if (fs.existsSync(binary)) return binary
    } catch {
      // npm did not install this package, because it is for another platform.
    }
  }
  return null
}

const binary = installedNode()
const why = binary === null ? 'npm installed none for this platform' : whyNot(binary)
if (why !== null && !(Number(process.versions.node.split('.')[0]) >= OLDEST_NODE)) {
  process.stderr.write(
    'cofferdam: the Node.js that comes with it does not start here: ' +
      why +
      '\n' +
      (why.includes('libatomic.so.1') ? 'Install it: sudo apt-get install libatomic1. ' : '') +
      'Or run the command with Node.js ' +
      OLDEST_NODE +
      ' or newer, not ' +
      process.versions.node +
      '.\n',
  )
  process.exit(1)
}
const node = why === null ? binary : process.execPath
// Programs that the command starts find this Node, too.
const env = { ...process.env, PATH: path.dirname(node) + path.delimiter + (process.env.PATH || '') }
const end = await run(node, [main, ...process.argv.slice(2)], env, process.cwd())
if (end.error) {
  process.stderr.write('cofferdam: cannot start Node.js: ' + end.error.message + '\n')
  process.exit(1)
}
endLike(end)
