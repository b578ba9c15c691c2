// What a Snowflake ID says, without a database.
import java.util.*;
import java.util.stream.*;

public class Decode {
	// decode(1541815603606036480L, "timestamp:41 datacenter:5 worker:5
	// sequence:12", 1288834974657L, 1): Instant.ofEpochMilli(unix_ms) is the time.
	static Map<String, Long> decode(long id, String fields, long epochMs, long tickMs) {
		Map<String, Long> said = new TreeMap<>();
		int shift = 0;
		for (String field : fields.split(" "))
			shift += Integer.parseInt(field.split(":")[1]);
		for (String field : fields.split(" ")) {
			int bits = Integer.parseInt(field.split(":")[1]);
			long value = id >>> (shift -= bits) & (1L << bits) - 1;
			said.put(field.split(":")[0], value);
			if (field.matches("(datacenter|worker|process):.*"))	// parts of the node
				said.merge("node", value, (node, part) -> node << bits | part);
		}
		said.put("unix_ms", epochMs + said.remove("timestamp") * tickMs);
		return said;
	}

	// For the test: lines "ID epoch_ms tick_ms fields" are answered.
	public static void main(String[] args) {
		Scanner in = new Scanner(System.in);

		while (in.hasNextLine()) {
			String[] word = in.nextLine().split(" ", 4);
			Map<String, Long> said = decode(Long.parseLong(word[0]), word[3],
					Long.parseLong(word[1]), Long.parseLong(word[2]));

			System.out.println(said.entrySet().stream()
					.map(e -> e.getKey() + "=" + e.getValue())
					.collect(Collectors.joining(" ")));
		}
	}
}
