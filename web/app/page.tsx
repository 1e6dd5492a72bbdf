import { Overview } from "@/screens/overview";

export default function Page() {
  return <Overview />;
}
