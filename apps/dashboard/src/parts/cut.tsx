import { plainText } from '../words/plain.ts'

/** A text on one line. What does not fit is in its title. */
export const Cut = ({ text }: { text: string }) => (
  <span class="cut" title={plainText(text)}>
    {plainText(text)}
  </span>
)
