/**
 * Ways out through files, from public lists of container escapes: kernel handlers, devices, mounts, other
 * processes' roots, sockets.
 */
import { createHash } from 'node:crypto'
import { readFileSync, realpathSync } from 'node:fs'
import { expect, test } from 'vitest'
import { onTargets, program } from './on-targets.ts'
import { isOfEachKind, bash } from './target.ts'

/** The folder of the agent's socket in a container. */
const SOCKET_FOLDER = '/run/cofferdam'
const digest = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex')

/**
 * What is open with gVisor: parts of the sandbox's own kernel and of its own root file system in memory. None
 * of it is the host's.
 */
const ITS_OWN = /^(enter|climb) \/proc\/\d+\/(root|cwd)$|^write \/dev\/(fuse|net\/tun)$/

await onTargets(
  (target) => {
    test('no file of the kernel, host, runtime or agent opens a way out', async () => {
      const watched = ['/proc/sys/kernel/core_pattern', realpathSync('/usr/bin/python3'), process.execPath]
      const before = watched.map(digest)
      const { outcome, stdout, stderr } = await target.run({
        program: { ...program('escapes'), argv: [SOCKET_FOLDER] } as ReturnType<typeof program>,
        // It walks all of /proc/sys and /sys, of which an emulated kernel has more.
        limits: { soft_timeout_ms: 170_000, hard_timeout_ms: 175_000 },
      })
      expect(outcome, stderr).toMatchObject({ ending: 'ok' })
      const found = JSON.parse(stdout) as string[]
      expect(found.filter((name) => target.kernel !== 'gvisor' || !ITS_OWN.test(name))).toEqual([])
      expect(watched.map(digest)).toEqual(before)
    })

    test('a terminal that the program opens is connected to nothing outside', async () => {
      const { stdout, stderr } = await target.run({
        program: bash(`
python3 - <<'END'
import fcntl, os, termios
typed = 0
for path in ("/dev/tty", "/dev/console", "/proc/1/fd/0", "/proc/1/fd/1"):
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
        for letter in b"id\\n": fcntl.ioctl(fd, termios.TIOCSTI, bytes([letter]))
        typed += 1
    except OSError: pass
for fd in range(3):
    try: fcntl.ioctl(fd, termios.TIOCSTI, b"x"); typed += 1
    except OSError: pass
    try: fcntl.ioctl(fd, 0x541C, b"\\x03"); typed += 1
    except OSError: pass
print(typed)
END`),
      })
      expect(stdout, stderr).toBe('0\n')
    })

    test('the program learns nothing of the kernel, disks, mounts and users of the host', async () => {
      const { stdout } = await target.run({
        program: bash(
          'cat /proc/cmdline /proc/version /proc/config.gz /proc/diskstats /proc/partitions /proc/modules /proc/keys /proc/sched_debug /proc/timer_list /sys/class/dmi/id/* 2>/dev/null | tr -d "\\0"; grep -v "^0* " /proc/kallsyms 2>/dev/null | head -3; echo end',
        ),
      })
      const kernel = readFileSync('/proc/version', 'utf8').trim()
      const said = stdout.replace(/^end\n$/m, '')
      if (target.kernel === 'host') expect(said).not.toMatch(/\S/)
      expect(stdout).not.toContain(kernel)
      expect(stdout).not.toContain(readFileSync('/proc/cmdline', 'utf8').trim())
    })
  },
  { daily: isOfEachKind },
)
