/**
 * Stands in for the binary `jailer` (Firecracker’s docs/jailer.md, src/jailer/src/env.rs): `node
 * jailer-main.ts CONFIG --id ID … -- FIRECRACKER-ARGUMENTS`. It checks its arguments, makes the jail's
 * folders, copies the binary, makes and joins the cgroup, and starts the VMM: as another user with
 * `dropsUser`, in a pid namespace with --new-pid-ns. It does not chroot, because the VMM’s double needs
 * Node.js, and makes no devices.
 */
import { spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { readDouble } from './faults.ts'

const [configPath = '', ...words] = process.argv.slice(2)
const config = readDouble(configPath)
const end = words.indexOf('--')
const extra = end < 0 ? [] : words.slice(end + 1)
const { values } = parseArgs({
  args: end < 0 ? words : words.slice(0, end),
  options: {
    id: { type: 'string' },
    'exec-file': { type: 'string' },
    uid: { type: 'string' },
    gid: { type: 'string' },
    'cgroup-version': { type: 'string', default: '1' },
    cgroup: { type: 'string', multiple: true, default: [] },
    'parent-cgroup': { type: 'string' },
    'chroot-base-dir': { type: 'string', default: '/srv/jailer' },
    'resource-limit': { type: 'string', multiple: true, default: [] },
    'new-pid-ns': { type: 'boolean', default: false },
    daemonize: { type: 'boolean', default: false },
    netns: { type: 'string' },
    version: { type: 'boolean', default: false },
  },
})

function refuse(why: string): never {
  console.error(why)
  process.exit(1)
}
function required(name: 'id' | 'exec-file' | 'uid' | 'gid'): string {
  return values[name] ?? refuse(`Failed to parse arguments: Argument '${name}' required, but not found.`)
}
/** env.rs: the parent cgroup and the files of cgroups are relative paths without `.` and `..`. */
const isPlain = (path: string): boolean =>
  !path.startsWith('/') && !path.split('/').some((part) => part === '.' || part === '..')

if (values.version) {
  console.log(`Jailer v${config.version}\n`)
  process.exit(0)
}
if (config.faults.jailer === 'fail') refuse('Failed to change owner: asked for by the test')
if (config.faults.jailer === 'hang') await sleep(3_600_000)

const id = required('id')
// src/utils/src/validators.rs, validate_instance_id
if (!/^[\p{L}\p{N}-]{1,64}$/u.test(id)) refuse(`Invalid instance ID: ${id}`)
const [uid, gid] = [Number(required('uid')), Number(required('gid'))]
const execFile = realpathSync(required('exec-file'))
if (!statSync(execFile).isFile()) refuse(`${execFile} is not a file`)
if (!lstatSync(values['chroot-base-dir']).isDirectory()) refuse('The chroot base is not a directory')
const name = basename(execFile)
const base = realpathSync(values['chroot-base-dir'])
const root = join(base, name, id, 'root')
const parent = values['parent-cgroup'] ?? name
if (!isPlain(parent)) refuse('The parent cgroup is not a relative path')

mkdirSync(root, { recursive: true })
copyFileSync(execFile, join(root, name))
chownSync(join(root, name), uid, gid)
joinGroup()
for (const folder of ['', 'dev', 'dev/net', 'run']) {
  mkdirSync(join(root, folder), { recursive: true })
  chmodSync(join(root, folder), 0o700)
  chownSync(join(root, folder), uid, gid)
}
await start()
process.exit(0)

/**
 * src/jailer/src/cgroup.rs: every file is `<controller>.<property>`, and its controller must be there.
 * Without `needsControllers`, a file whose controller is missing is left out.
 */
function joinGroup(): void {
  if (values['cgroup-version'] !== '2') refuse('the double knows cgroup v2 alone')
  const mount = /^\S+ (\S+) cgroup2 /m.exec(readFileSync('/proc/mounts', 'latin1'))?.[1]
  if (mount === undefined) refuse('Cgroup v2 is not mounted')
  const controllers = readFileSync(join(mount, 'cgroup.controllers'), 'latin1').trim().split(' ')
  const group = join(mount, parent, id)
  if (values.cgroup.length === 0) return
  mkdirSync(group, { recursive: true })
  for (const property of values.cgroup) {
    const [file = '', value = '', ...more] = property.split('=')
    if (value === '' || more.length > 0) refuse(`Invalid format for cgroups: ${property}`)
    const [controller = '', ...rest] = file.split('.')
    if (rest.length === 0 || !isPlain(file)) refuse(`Cgroup invalid file: ${property}`)
    if (controllers.includes(controller)) {
      for (const at of [mount, join(mount, parent)])
        writeFileSync(join(at, 'cgroup.subtree_control'), `+${controller}`)
      writeFileSync(join(group, file), value)
    } else if (config.needsControllers) refuse(`Controller ${controller} is unavailable`)
  }
  writeFileSync(join(group, 'cgroup.procs'), String(process.pid))
}

/** env.rs, exec_into_new_pid_ns: the jailer writes the pid of the child, and ends. */
async function start(): Promise<void> {
  const limits = values['resource-limit'].map((limit) => {
    const [what = '', value = ''] = limit.split('=')
    if (!['fsize', 'no-file'].includes(what) || !/^\d+$/.test(value))
      refuse(`Invalid format for resources limits: ${limit}`)
    return `--${what.replace('-', '')}=${value}`
  })
  const as = config.dropsUser
    ? ['setpriv', '--reuid', String(uid), '--regid', String(gid), '--clear-groups', '--no-new-privs', '--']
    : []
  const vmm = [join(root, name), '--double-root', root, '--id', id, '--start-time-us', '0', ...extra]
  const pids = values['new-pid-ns'] ? ['unshare', '--pid', '--fork', '--mount-proc', '--'] : []
  const [command = '', ...rest] = [...pids, 'prlimit', ...limits, '--', ...as, ...vmm]
  const child = spawn(command, rest, {
    cwd: root,
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
    stdio: ['ignore', 'ignore', 'inherit'],
    detached: true,
  })
  child.unref()
  if (child.pid === undefined) refuse('the VMM could not be started')
  const pid = values['new-pid-ns'] ? await childOf(child.pid) : child.pid
  if (config.faults.jailer === 'no-pid') return
  const told = config.faults.jailer === 'wrong-pid' ? process.ppid : pid
  writeFileSync(join(root, `${name}.pid`), String(told), { flag: 'wx' })
}

async function childOf(parentPid: number): Promise<number> {
  for (let tried = 0; tried < 1000; tried++) {
    try {
      const first = readFileSync(`/proc/${parentPid}/task/${parentPid}/children`, 'latin1')
        .trim()
        .split(' ')[0]
      if (first !== undefined && first !== '') return Number(first)
    } catch {
      break
    }
    await sleep(5)
  }
  refuse('the VMM ended at once')
}
