/** What a program may ask of the host's kernel: system calls, rights and sockets. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { processesOf, statusOf } from './host.ts'
import { onTargets, program } from './on-targets.ts'
import { isOfEachKind, bash, python } from './target.ts'

/** All answers that an attack may get. EINVAL and ESRCH mean that the kernel looked at the arguments. */
const REFUSALS = new Set(['EPERM', 'EACCES', 'ENOSYS', 'EAFNOSUPPORT', 'SIGSYS'])
/** In a user namespace there is no other ID to change to, so these get EINVAL. */
const isRefused = (name: string, answer: string): boolean =>
  REFUSALS.has(answer) || (/^set(uid|gid|reuid|groups)$/.test(name) && answer === 'EINVAL')

/**
 * What gVisor answers by itself (release 20221219; Docker's filter does not apply inside): namespaces,
 * devices and sockets of its own kernel, none of them the host's. Everything else must be refused there too.
 */
const ITS_OWN = [
  /^(unshare|clone) /,
  /^(setns|pivot_root|chroot|io_uring_setup|io_setup|perf_event_open|sethostname|setdomainname|syslog|nice|netlink|packet|raw icmp)$/,
  /^(name_to_handle_at|open_by_handle_at|personality .*|ptrace traceme|mknod .*)$/,
]

await onTargets(
  (target) => {
    test('no dangerous system call gets as far as its arguments', async () => {
      const seen = await target.ask(program('syscalls'))
      expect(Object.keys(seen).length).toBeGreaterThan(70)
      const given = Object.entries(seen).filter(([name, answer]) => !isRefused(name, answer))
      const unexpected = given.filter(
        ([name]) => target.kernel !== 'gvisor' || !ITS_OWN.some((pattern) => pattern.test(name)),
      )
      expect(unexpected).toEqual([])
    })

    // If a sandbox has its own kernel, the host sees only the threads of that kernel.
    const onHostKernel = target.kernel === 'host' ? test : () => undefined
    onHostKernel(
      'a program has no capability, group or privileged user, no new privileges, and a filter',
      async () => {
        const attack = target.start({
          program: python('import time; print("up", flush=True); time.sleep(60)'),
        })
        const ref = await attack.began
        await attack.said('up')
        const pids = processesOf(target, ref)
        expect(pids.length).toBeGreaterThan(0)
        for (const pid of pids) {
          const none = '0000000000000000'
          for (const kind of ['CapEff', 'CapPrm', 'CapInh', 'CapAmb'])
            expect(statusOf(pid, kind), kind).toBe(none)
          expect(statusOf(pid, 'NoNewPrivs')).toBe('1')
          expect(statusOf(pid, 'Seccomp')).toBe('2')
          expect(statusOf(pid, 'Groups')).toBe('')
          for (const id of statusOf(pid, 'Uid').split('\t')) expect(Number(id)).toBeGreaterThan(0)
        }
        attack.stop('cancelled')
        await attack.gone
      },
    )

    test("a set-user-ID program gives no rights, neither the host's nor an own one", async () => {
      const { stdout } = await target.run({
        program: bash(`
cp /bin/bash ./mine; chmod 6755 ./mine 2>/dev/null
for shell in ./mine /bin/su /usr/bin/su /usr/bin/passwd /usr/bin/mount; do
  [ -u "$shell" ] || [ -x "$shell" ] || continue
  "$shell" -p -c 'grep -E "^(Uid|CapEff)" /proc/self/status; id -u' < /dev/null 2>/dev/null
done
python3 - <<'END'
import os
print('ids', sorted(set(os.getresuid() + os.getresgid())))
END`),
      })
      expect(stdout).not.toMatch(/^0$/m)
      expect(stdout).not.toMatch(/^Uid:.*\t0(\t|$)/m)
      expect(stdout).not.toMatch(/^CapEff:\s*0*[1-9a-f]/m)
      expect(stdout).not.toMatch(/ids \[0/)
    })

    test("a program leaves no System V segment, semaphore or queue in the host's namespace", async () => {
      const key = 0x5ec0_0000 + (process.pid & 0xffff)
      const keys = (): string =>
        ['shm', 'sem', 'msg'].map((kind) => readFileSync(`/proc/sysvipc/${kind}`, 'utf8')).join('')
      const attack = target.start({
        program: python(`
import ctypes, platform, time
libc = ctypes.CDLL(None)
libc.shmget(${key}, 4096, 0o1666); libc.semget(${key}, 1, 0o1666); libc.msgget(${key}, 0o1666)
print('made', flush=True); time.sleep(60)`),
      })
      await attack.said('made')
      expect(keys()).not.toMatch(new RegExp(`^\\s*${key}\\s`, 'm'))
      attack.stop('cancelled')
      await attack.gone
      expect(keys()).not.toMatch(new RegExp(`^\\s*${key}\\s`, 'm'))
    })
  },
  { daily: isOfEachKind },
)
