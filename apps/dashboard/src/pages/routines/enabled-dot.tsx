import { ToneDot } from '../../parts/standing-dot.tsx'

/** Whether a routine’s schedule is on. */
export const EnabledDot = ({ enabled }: { enabled: boolean }) => (
  <ToneDot tone={enabled ? 'ok' : 'wait'}>{enabled ? 'Enabled' : 'Disabled'}</ToneDot>
)
